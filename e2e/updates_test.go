// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// updateSpecs change what nodes are made of, under a load of reads that must stay harmless.
func updateSpecs() {
	overhead := func(quantity string, update v1alpha1.UpdateSpec) func(*v1alpha1.PeerCacheClusterSpec) {
		return func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Resources.MemoryOverhead, spec.Update = resource.MustParse(quantity), update
		}
	}
	condition := func(ctx context.Context, g Gomega, kind string) string {
		c := &v1alpha1.PeerCacheCluster{}
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, c)).To(Succeed())
		g.Expect(c.Status.ObservedGeneration).To(Equal(c.Generation))
		return conditionMessage(c, kind)
	}

	It("when their pods are deleted, and not before, if so asked", full, func(ctx context.Context) {
		before := nodePods(ctx)
		DeferCleanup(func(ctx context.Context) { changeSpec(ctx, overhead("530Mi", v1alpha1.UpdateSpec{})) })
		changeSpec(ctx, overhead("530Mi", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateOnDelete}))
		Eventually(func(g Gomega) {
			g.Expect(condition(ctx, g, v1alpha1.ConditionProgressing)).To(And(
				HavePrefix("False WaitingForDeletion"), ContainSubstring("0 of 3 members")))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		Expect(replaced(ctx, Default, before)).To(BeZero(), "pods that were replaced without being deleted")

		By("deleting one")
		Expect(kube.Delete(ctx, before[nodes.third])).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(condition(ctx, g, v1alpha1.ConditionProgressing)).To(And(
				HavePrefix("False WaitingForDeletion"), ContainSubstring("1 of 3 members")))
			g.Expect(condition(ctx, g, v1alpha1.ConditionReady)).To(HavePrefix("True"))
		}).WithContext(ctx).WithTimeout(90 * time.Second).Should(Succeed())
		Expect(replaced(ctx, Default, before)).To(Equal(1))

		By("leaving the rest to the operator, which replaces two at a time")
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		load := body
		load.Seconds, load.SHA256s = 200, writeAll(ctx, body).SHA256s
		running := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		changeSpec(ctx, overhead("530Mi", v1alpha1.UpdateSpec{
			Strategy: v1alpha1.UpdateRolling, MaxUnavailable: new(intstr.FromInt32(2)),
		}))
		Eventually(func(g Gomega) {
			g.Expect(replaced(ctx, g, before)).To(Equal(len(nodes.all())))
			g.Expect(condition(ctx, g, v1alpha1.ConditionProgressing)).To(HavePrefix("False"))
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
		answer := running.stop(ctx)
		AddReportEntry("reader", timeline(answer))
		expectHarmless(answer)
	}, SpecTimeout(6*time.Minute))

	It("pausing within ten seconds when the pools are emptied in the middle of a roll", full, func(ctx context.Context) {
		state := func(ctx context.Context) v1alpha1.UpdateState {
			if update := clusterNamed(ctx, clusterName).Status.Update; update != nil {
				return update.State
			}
			return ""
		}
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		load := body
		load.Seconds, load.SHA256s = 500, writeAll(ctx, body).SHA256s
		running := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		Eventually(func() string { return peercacheOK(ctx, "status", clusterName) }).WithContext(ctx).
			WithTimeout(100*time.Second).Should(MatchRegexp(`attached, (9[0-9]|100)% hits`), "percent of the pages that the load gets")

		DeferCleanup(func(ctx context.Context) { changeSpec(ctx, overhead("530Mi", v1alpha1.UpdateSpec{})) })
		changeSpec(ctx, overhead("540Mi", v1alpha1.UpdateSpec{MaxHitRatioDrop: new(int32(50))}))
		Eventually(state).WithContext(ctx).WithTimeout(hang).WithPolling(200 * time.Millisecond).
			Should(Equal(v1alpha1.UpdateProceeding))
		_, err := writer.do(ctx, "clear", body) // a node that is being replaced hears nothing of it, and has no pages
		Expect(err).NotTo(HaveOccurred())
		emptied := time.Now()
		Eventually(state).WithContext(ctx).WithTimeout(hang).WithPolling(200*time.Millisecond).
			Should(Equal(v1alpha1.UpdatePaused), "the roll, with nothing found any more")
		AddReportEntry("paused", time.Since(emptied).Round(100*time.Millisecond).String()+" after the pools were emptied")

		By("filling the pools again")
		Eventually(func(g Gomega) {
			if state(ctx) == v1alpha1.UpdatePaused { // the node that was on its way out then takes what it is given along
				writeAll(ctx, body)
			}
			g.Expect(condition(ctx, g, v1alpha1.ConditionProgressing)).To(HavePrefix("False"))
			g.Expect(condition(ctx, g, v1alpha1.ConditionReady)).To(HavePrefix("True"))
		}).WithContext(ctx).WithTimeout(3 * time.Minute).WithPolling(2 * time.Second).Should(Succeed())
		answer := running.stop(ctx)
		AddReportEntry("reader", timeline(answer))
		expectHarmless(answer)
	}, SpecTimeout(10*time.Minute))
}
