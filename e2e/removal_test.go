// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// removalSpecs take a machine out of the Kubernetes cluster, as when it is switched off for good, and bring it back.
func removalSpecs() {
	hosts := func(count int32) func(*v1alpha1.PeerCacheClusterSpec) {
		return func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Discovery.Replicas = count }
	}

	It("a machine, which hosts discovery: it is forgotten and replaced, and is a node again when it comes back", func(ctx context.Context) {
		// Two hosts on three machines: at least one is on a machine that may go, and one machine can take its place.
		DeferCleanup(func(ctx context.Context) { changeSpec(ctx, hosts(3)) })
		changeSpec(ctx, hosts(2))
		Eventually(func(g Gomega) { g.Expect(discoveryHosts(ctx, g)).To(HaveLen(2)) }).
			WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		gone, stays := &writer, &reader
		if _, hosting := discoveryHosts(ctx, Default)[gone.node]; !hosting {
			gone, stays = stays, gone
		}
		pod, err := nodePod(ctx, gone.node)
		Expect(err).NotTo(HaveOccurred())
		lost, err := statusOf(ctx, pod)
		Expect(err).NotTo(HaveOccurred())
		rest := []string{stays.node, nodes.third}

		By("removing " + gone.node + ", while " + stays.name + " reads what it has")
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		load := body
		load.SHA256s, load.Seconds = writeAllOn(ctx, *gone, body).SHA256s, 20
		reading := stays.start(ctx, "load", load, "")
		waitUntilReading(ctx, stays.node)
		comeBack := sync.OnceFunc(func() {
			ctx := context.WithoutCancel(ctx)
			Expect(below.link(ctx, gone.node, "up")).To(Succeed())
			_, err := below.exec(ctx, gone.node, "pkill", "-x", "kubelet") // it registers its machine when it starts
			Expect(err).NotTo(HaveOccurred())
		})
		defer func() { // also when the spec fails
			comeBack()
			ctx := context.WithoutCancel(ctx)
			if _, err := kube.pod(ctx, namespace, gone.name); apierrors.IsNotFound(err) {
				*gone = startEngine(ctx, gone.name, gone.node)
			}
		}()
		started := time.Now()
		Expect(below.link(ctx, gone.node, "down")).To(Succeed())
		deleteAndWait(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: gone.node}}, hang)
		Eventually(func(g Gomega) {
			for _, node := range rest {
				status, err := nodeStatus(ctx, node)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status.healthyMembers()).To(Equal(len(rest)))
				g.Expect(status.Members).NotTo(ContainElement(HaveField("ID", lost.Node.ID)), "members that %s sees", node)
			}
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "the members do not forget it")
		forgotten := time.Since(started)

		// Kubernetes takes about a minute to delete the pods of a machine that is none.
		Eventually(func(g Gomega) {
			now := discoveryHosts(ctx, g)
			delete(now, gone.node)
			if len(now) == 0 {
				StopTrying("no machine hosts discovery").Now()
			}
			g.Expect(now).To(And(HaveLen(2), HaveKey(stays.node), HaveKey(nodes.third)), "discovery hosts")
			cluster := &v1alpha1.PeerCacheCluster{}
			g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
			g.Expect(cluster.Status.Members).To(Equal("2/2"))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(Equal("True AllMembersReady: 2/2 members serve"))
			for _, name := range []string{gone.name, pod.Name} {
				_, err := kube.pod(ctx, namespace, name)
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "pod %s is still there", name)
			}
		}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "the removed machine still counts")
		AddReportEntry("removal", fmt.Sprintf("forgotten by the members after %.0f s, by Kubernetes and the operator after %.0f s",
			forgotten.Seconds(), time.Since(started).Seconds()))

		during := reading.result(ctx, time.Minute)
		AddReportEntry(stays.name, timeline(during))
		expectHarmless(during)
		Expect(during.FullRounds).To(BeNumerically("<", during.Rounds), "the fault was not noticed: %s", timeline(during))

		By("bringing it back")
		comeBack()
		waitForNodes(ctx)
		waitForAllWebhooks(ctx)
		*gone = startEngine(ctx, gone.name, gone.node)
		gone.waitReady(ctx)
		wrote := writeAllOn(ctx, *gone, body)
		Eventually(func(g Gomega) {
			got, err := stays.do(ctx, "read", body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(rightPages(*stays, got, wrote.SHA256s)).To(Equal(body.Pages), "pages that hit")
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "hits do not return")
	}, SpecTimeout(7*time.Minute))
}

// discoveryHosts are the pods that host discovery, by machine.
func discoveryHosts(ctx context.Context, g Gomega) map[string]string {
	var list corev1.PodList
	g.Expect(kube.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{
		v1alpha1.LabelCluster: clusterName, v1alpha1.LabelDiscovery: v1alpha1.DiscoveryHost,
	})).To(Succeed())
	hosts := map[string]string{}
	for _, pod := range list.Items {
		hosts[pod.Spec.NodeName] = pod.Name
	}
	return hosts
}
