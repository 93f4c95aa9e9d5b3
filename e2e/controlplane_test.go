// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

func controlPlaneSpecs() {
	It("with an operator that writes nothing while nothing changes", func(ctx context.Context) {
		expectQuiet(ctx)
	}, SpecTimeout(4*time.Minute))

	It("with an operator that writes nothing of a cluster that cannot settle, and undoes what somebody else changes", full, func(ctx context.Context) {
		cluster := &v1alpha1.PeerCacheCluster{}
		cluster.Namespace, cluster.Name = namespace, "unsettled"
		cluster.Spec.Memory.Pool = resource.MustParse("1Gi")
		cluster.Spec.Nodes.Selector = map[string]string{"example.com/machines": "none"}
		cluster.Spec.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(
			`{"containers": [{"name": "tool", "image": "tool", "ports": [{"containerPort": 8002}, {"containerPort": 8001}]}]}`)}}
		Expect(kube.Create(ctx, cluster)).To(Succeed())
		defer func() { deleteAndWait(context.WithoutCancel(ctx), cluster, hang) }()
		expectUnwritten(ctx, cluster.Name, "default", lookEvery+5*time.Second)
		Expect(kube.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
		Expect(meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady)).
			To(HaveField("Reason", "NoNodes"), "it would settle")

		daemonSet := &appsv1.DaemonSet{}
		key := client.ObjectKey{Namespace: namespace, Name: cluster.Name + "-default"}
		const port = 8003
		Expect(kube.Get(ctx, key, daemonSet)).To(Succeed())
		before := client.MergeFrom(daemonSet.DeepCopy())
		for i := range daemonSet.Spec.Template.Spec.Containers {
			daemonSet.Spec.Template.Spec.Containers[i].Image = "changed"
			daemonSet.Spec.Template.Spec.Containers[i].Ports = append(daemonSet.Spec.Template.Spec.Containers[i].Ports,
				corev1.ContainerPort{ContainerPort: port})
		}
		Expect(kube.Patch(ctx, daemonSet, before)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(kube.Get(ctx, key, daemonSet)).To(Succeed())
			for _, container := range daemonSet.Spec.Template.Spec.Containers {
				g.Expect(container.Image).NotTo(Equal("changed"))
				g.Expect(container.Ports).To(ContainElement(HaveField("ContainerPort", BeEquivalentTo(port))), "somebody else's port")
			}
		}).WithContext(ctx).WithTimeout(lookEvery - 5*time.Second).Should(Succeed())
	}, SpecTimeout(4*time.Minute))

	It("while the operator and the API server are away", func(ctx context.Context) {
		old := request{Kind: "mla", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		load := old
		load.Seconds, load.SHA256s = 15, writeAll(ctx, old).SHA256s
		fresh := old
		fresh.Seed++
		triggers := map[string]string{nodes.writer: "e2e-write", nodes.reader: "e2e-read"}
		pull := func(node string) {
			_, err := below.exec(ctx, node, "touch", machineFolder()+"/"+triggers[node])
			Expect(err).NotTo(HaveOccurred())
		}
		defer func() {
			for node, trigger := range triggers {
				_, err := below.exec(context.WithoutCancel(ctx), node, "rm", "-f", machineFolder()+"/"+trigger)
				Expect(err).NotTo(HaveOccurred())
			}
		}()

		defer scaleOperator(context.WithoutCancel(ctx), operators(ctx)) // also when the spec is interrupted
		scaleOperator(ctx, 0)
		written := writer.start(ctx, "write", fresh, triggers[nodes.writer])
		read := reader.start(ctx, "read", fresh, triggers[nodes.reader])
		loaded := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		pod, err := nodePod(ctx, nodes.writer)
		Expect(err).NotTo(HaveOccurred())
		stored := func() float64 {
			return metricFromMachine(ctx, nodes.writer, pod.Status.PodIP, "peercache_write_stored_total")
		}

		func() {
			Expect(below.controlPlane(ctx, "stop")).To(Succeed())
			defer func() { Expect(below.controlPlane(context.WithoutCancel(ctx), "start")).To(Succeed()) }()
			before := stored()
			pull(nodes.writer)
			Eventually(stored).WithContext(ctx).WithTimeout(hang).
				Should(BeEquivalentTo(before+float64(fresh.Pages)), "pages are not written without the API server")
			pull(nodes.reader)
			time.Sleep(4 * time.Second) // the read happens now, and the load goes on
			_, err := kube.clientset.Discovery().ServerVersion()
			Expect(err).To(HaveOccurred(), "the API server answers")
		}()

		wrote, got, during := written.result(ctx, time.Minute), read.result(ctx, time.Minute), loaded.result(ctx, time.Minute)
		Expect(got.Hit).To(Equal(fresh.Pages*pageTokens), "tokens that the reader was promised")
		Expect(rightPages(reader, got, wrote.SHA256s)).To(Equal(fresh.Pages), "pages that hit")
		AddReportEntry("reader", timeline(during))
		expectHarmless(during)
		Expect(during.FullRounds).To(Equal(during.Rounds), "hits were lost: %s", timeline(during))
	}, SpecTimeout(4*time.Minute))
}

// lookEvery is how often the operator looks at a cluster at least.
const lookEvery = 30 * time.Second

// expectQuiet waits until nothing of the engines' cluster has been written for a while.
func expectQuiet(ctx context.Context) { expectUnwritten(ctx, clusterName, groupName, 12*time.Second) }

// expectUnwritten waits until nothing of a cluster, which has this group, has been written for so long.
func expectUnwritten(ctx context.Context, name, group string, quiet time.Duration) {
	versions := func() map[string]string {
		all := ownedBy(ctx, name)
		cluster := &v1alpha1.PeerCacheCluster{}
		Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster)).To(Succeed())
		all["PeerCacheCluster"] = cluster.ResourceVersion
		return all
	}
	// What earlier specs did may still move the members and the hit ratio, which is that of the last minute.
	var before map[string]string
	var since time.Time
	Eventually(func(g Gomega) {
		if now := versions(); !maps.Equal(now, before) {
			before, since = now, time.Now()
		}
		g.Expect(time.Since(since)).To(BeNumerically(">=", quiet), "since the last write: %v", before)
	}).WithContext(ctx).WithTimeout(3 * time.Minute).WithPolling(time.Second).Should(Succeed())
	Expect(before).To(HaveKey("DaemonSet " + name + "-" + group))
}

func operatorDeployment(ctx context.Context) *appsv1.Deployment {
	var list appsv1.DeploymentList
	Expect(kube.List(ctx, &list, client.InNamespace(systemNamespace))).To(Succeed())
	Expect(list.Items).To(HaveLen(1), "deployments of the operator")
	return &list.Items[0]
}

// operators is how many there are to be.
func operators(ctx context.Context) int32 { return *operatorDeployment(ctx).Spec.Replicas }

func scaleOperator(ctx context.Context, replicas int32) {
	operator := operatorDeployment(ctx)
	patch := client.MergeFrom(operator.DeepCopy())
	operator.Spec.Replicas = &replicas
	Expect(kube.Patch(ctx, operator, patch)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(operator), operator)).To(Succeed())
		g.Expect(operator.Status.ObservedGeneration).To(Equal(operator.Generation))
		g.Expect(operator.Status.Replicas).To(Equal(replicas))
		g.Expect(operator.Status.ReadyReplicas).To(Equal(replicas))
	}).WithContext(ctx).WithTimeout(90*time.Second).Should(Succeed(), "the operator does not go to %d replicas", replicas)
}

// metricFromMachine reads a metric without the API server.
func metricFromMachine(ctx context.Context, node, podIP, name string) float64 {
	text, err := below.exec(ctx, node, "curl", "-s", "--max-time", "5", fmt.Sprintf("http://%s:%d/metrics", podIP, monitoringPort))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			number, err := strconv.ParseFloat(value, 64)
			Expect(err).NotTo(HaveOccurred())
			return number
		}
	}
	Fail("the node on " + node + " has no metric " + name)
	return 0
}
