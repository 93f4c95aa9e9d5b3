// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// missedPodSpecs are about the webhook's absence, which holds no pod back.
func missedPodSpecs() {
	It("while the webhook is away: pods start all the same, are reported, and are connected on request", func(ctx context.Context) {
		late := engineDeployment("late", nodes.third)
		DeferCleanup(func(ctx context.Context) {
			changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Injection.MissedPods = v1alpha1.MissedPodsReport })
			deleteAndWait(ctx, late, time.Minute)
		})
		pods := func(g Gomega) []corev1.Pod {
			var list corev1.PodList
			g.Expect(kube.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"app": late.Name})).To(Succeed())
			return list.Items
		}
		cluster := func(g Gomega) *v1alpha1.PeerCacheCluster {
			c := &v1alpha1.PeerCacheCluster{}
			g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, c)).To(Succeed())
			return c
		}

		By("creating an SGLang pod while there is no operator")
		withoutOperator(ctx, func() {
			Expect(kube.Create(ctx, late)).To(Succeed())
			Eventually(func(g Gomega) {
				all := pods(g)
				g.Expect(all).To(HaveLen(1))
				g.Expect(all[0].Status.Phase).To(Equal(corev1.PodRunning))
				g.Expect(all[0].Annotations).NotTo(HaveKey("peercache.io/injected"))
			}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "a pod does not start without the webhook")
		})

		By("hearing of it from the operator")
		Eventually(func(g Gomega) {
			c := cluster(g)
			g.Expect(c.Status.MissedPods).To(BeEquivalentTo(1))
			g.Expect(conditionMessage(c, v1alpha1.ConditionInjectionReady)).To(And(
				HavePrefix("False PodsMissed"), ContainSubstring(namespace+"/late-")))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the missed pod is not reported")

		By("asking for its recreation")
		changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Injection.MissedPods = v1alpha1.MissedPodsRecreate })
		Eventually(func(g Gomega) {
			all := pods(g)
			g.Expect(all).To(HaveLen(1))
			g.Expect(all[0].Annotations).To(HaveKeyWithValue("peercache.io/injected", clusterName))
			g.Expect(ready(&all[0])).To(BeTrue(), "pod %s is %s", all[0].Name, all[0].Status.Phase)
			c := cluster(g)
			g.Expect(c.Status.MissedPods).To(BeZero())
			g.Expect(conditionMessage(c, v1alpha1.ConditionInjectionReady)).To(HavePrefix("True"))
		}).WithContext(ctx).WithTimeout(90*time.Second).Should(Succeed(), "the missed pod is not replaced by one that is connected")
	}, SpecTimeout(5*time.Minute))
}

// engineDeployment has an engine pod created anew when it goes.
func engineDeployment(name, node string) *appsv1.Deployment {
	pod := enginePod(name, node)
	pod.Labels["app"] = name
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}
