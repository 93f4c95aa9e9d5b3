// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

// pickedUp is how soon an engine has a node that is ready, and what asking for it through the API server takes.
const pickedUp = (2 + 3) * time.Second

// engineFirstSpecs start SGLang where its node is not there, not yet, or going. SGLang serves all the same, and has its
// node without a restart when it comes.
func engineFirstSpecs() {
	const label = "peercache.io/e2e-early"
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "early"},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Memory:      v1alpha1.MemorySpec{Pool: resource.MustParse("64Mi")},
			Nodes:       v1alpha1.NodesSpec{Selector: map[string]string{label: "first"}},
			PodTemplate: smallMembers(),
		},
	}
	var early, outside engine

	AfterAll(func(ctx context.Context) {
		for _, e := range []engine{early, outside} {
			removeEngine(ctx, e)
		}
		deleteAndWait(ctx, cluster, time.Minute)
		for _, machine := range nodes.all() {
			labelMachine(ctx, machine, label, nil)
		}
	}, NodeTimeout(longest))

	It("before the DaemonSet has a pod on its machine, and is attached when it has", func(ctx context.Context) {
		for _, machine := range nodes.all() {
			labelMachine(ctx, machine, label, nil)
		}
		Expect(kube.Create(ctx, cluster.DeepCopy())).To(Succeed())
		early = startEngineOf(ctx, cluster.Name, "early", nodes.third)
		early.waitReady(ctx)
		expectMisses(ctx, early, absentNode)

		By("labelling the machine")
		labelMachine(ctx, nodes.third, label, "first")
		expectAttached(ctx, cluster.Name, early)
		expectOwnPages(ctx, early)
	}, SpecTimeout(4*time.Minute))

	It("on a machine outside nodes.selector, and is attached when the selector is widened", full, func(ctx context.Context) {
		labelMachine(ctx, nodes.reader, label, "second")
		outside = startEngineOf(ctx, cluster.Name, "outside", nodes.reader)
		outside.waitReady(ctx)
		expectMisses(ctx, outside, absentNode)

		By("widening the selector")
		changeSpecOf(ctx, cluster.Name, func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Nodes.Selector = map[string]string{corev1.LabelOSStable: "linux"}
		})
		expectAttached(ctx, cluster.Name, outside)
		// The first machine's node is rolled to the other selector, and may lose what was just written: it is written anew.
		Eventually(func(g Gomega) {
			body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: freshSeed()}
			wrote, err := early.do(ctx, "write", body)
			g.Expect(err).NotTo(HaveOccurred())
			got, err := outside.do(ctx, "read", body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(rightPages(outside, got, wrote.SHA256s)).To(Equal(body.Pages), "pages that %s got", outside.name)
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("while the nodes are rolled", full, func(ctx context.Context) {
		before := nodePods(ctx)
		DeferCleanup(func(ctx context.Context) {
			changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Update = v1alpha1.UpdateSpec{} })
		})
		changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Resources.MemoryOverhead = resource.MustParse("540Mi")
			spec.Update = v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling, MaxUnavailable: new(intstr.FromInt32(3))}
		})
		Eventually(func(g Gomega) {
			pod, err := kube.pod(ctx, namespace, before[nodes.third].Name)
			g.Expect(err != nil || pod.DeletionTimestamp != nil || pod.UID != before[nodes.third].UID).To(BeTrue(), "it is not replaced")
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
		amid := startEngine(ctx, "amid", nodes.third)
		DeferCleanup(removeEngine, amid)
		amid.waitReady(ctx)
		waitForNodes(ctx)
		expectAttached(ctx, clusterName, amid)
		expectOwnPages(ctx, amid)
	}, SpecTimeout(5*time.Minute))

	It("while its node is killed during the attach", full, func(ctx context.Context) {
		signal := func(ctx context.Context, name string) {
			_, err := below.exec(ctx, nodes.third, "pkill", "-"+name, "-x", "peercached")
			Expect(err).NotTo(HaveOccurred())
		}
		var halted engine
		func() {
			signal(ctx, "STOP") // it takes connections and answers none
			defer signal(context.WithoutCancel(ctx), "KILL")
			halted = startEngine(ctx, "halted", nodes.third)
			DeferCleanup(removeEngine, halted)
			Eventually(func(g Gomega) {
				pod, err := kube.pod(ctx, namespace, halted.name)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
				logs, err := kube.logs(ctx, namespace, halted.name, "engine", false)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(logs).To(ContainSubstring("attaching the storage backend"))
			}).WithContext(ctx).WithTimeout(40 * time.Second).Should(Succeed()) // after 60 s the kubelet kills the node
			time.Sleep(time.Second) // it waits for an answer for six
		}()
		halted.waitReady(ctx)
		waitForNodes(ctx)
		expectAttached(ctx, clusterName, halted)
		expectOwnPages(ctx, halted)
	}, SpecTimeout(4*time.Minute))
}

// health is what the store says that was attached when the engine started.
func (e engine) health(ctx context.Context) (attached bool, detached string, err error) {
	output, err := kube.exec(ctx, e.home(), e.name, "", "enginectl", "health")
	if err != nil {
		return false, "", fmt.Errorf("health of engine %s: %w", e.name, err)
	}
	var answer struct {
		Stats struct {
			Attached bool   `json:"attached"`
			Detached string `json:"detached"`
		} `json:"stats"`
	}
	if err := json.Unmarshal([]byte(output), &answer); err != nil {
		return false, "", fmt.Errorf("health of engine %s is %q: %w", e.name, output, err)
	}
	return answer.Stats.Attached, answer.Stats.Detached, nil
}

// absentNode is what an engine says of its cache where no node runs.
const absentNode = "is peercached running on this node"

// expectMisses asks an engine without a node: it stores nothing and finds nothing, and no call takes long.
func expectMisses(ctx context.Context, e engine, because string) {
	attached, why, err := e.health(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(attached).To(BeFalse())
	Expect(why).To(ContainSubstring(because))
	body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: freshSeed()}
	for _, answer := range []result{e.write(ctx, body), e.read(ctx, body)} {
		Expect(answer.Backup + answer.Hit + answer.Prefetched).To(BeZero())
		Expect(answer.MaxCallSeconds).To(BeNumerically("<", 0.1))
	}
	pod, err := kube.pod(ctx, e.home(), e.name)
	Expect(err).NotTo(HaveOccurred())
	Expect(ready(pod)).To(BeTrue())
}

// expectAttached waits for the cluster's node on the engine's machine, and then for the engine, which was not restarted.
func expectAttached(ctx context.Context, cluster string, e engine) {
	Eventually(func(g Gomega) {
		pod, err := podOf(ctx, cluster, e.node)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ready(pod)).To(BeTrue(), "%s is %s", pod.Name, pod.Status.Phase)
	}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "there is no node on %s", e.node)
	waitAttached(ctx, e, pickedUp)
	pod, err := kube.pod(ctx, e.home(), e.name)
	Expect(err).NotTo(HaveOccurred())
	Expect(pod.Status.ContainerStatuses[0].RestartCount).To(BeZero())
}

func waitAttached(ctx context.Context, e engine, within time.Duration) {
	Eventually(func(g Gomega) {
		attached, why, err := e.health(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(attached).To(BeTrue(), why)
	}).WithContext(ctx).WithTimeout(within).Should(Succeed(), "engine %s does not find its node", e.name)
}

// expectOwnPages has an engine write pages and read them back through its node.
func expectOwnPages(ctx context.Context, e engine) {
	body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: freshSeed()}
	wrote := writeAllOn(ctx, e, body)
	Expect(wrote.SharedMemory).To(BeTrue(), "a host pool that the node maps")
	expectRead(ctx, e, body, wrote)
}
