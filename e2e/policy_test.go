// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// policiesSince is the minor version of Kubernetes that serves MutatingAdmissionPolicy without a feature gate.
const policiesSince = 36

// policySpecs connect engines by a policy that the API server evaluates by itself.
func policySpecs() {
	It("by an admission policy, while there is no operator", func(ctx context.Context) {
		byWebhook := probe(ctx, Default, clusterName)
		injection := nodeInjection(v1alpha1.SocketHostPath)
		DeferCleanup(func(ctx context.Context) { changeSpec(ctx, setInjection(injection)) })
		byPolicy := injection
		byPolicy.By = v1alpha1.InjectionByPolicy
		changeSpec(ctx, setInjection(byPolicy))
		if kube.minor < policiesSince {
			waitForInjection(ctx, "False PolicyUnknown")
			since(policiesSince, "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy")
		}
		waitForInjection(ctx, "True PolicyReady")
		made := policyVersions(ctx, Default)
		Expect(made).To(HaveLen(2), "the policy and its binding")

		ruled := engine{name: "ruled", node: nodes.third}
		withoutOperator(ctx, func() {
			Eventually(func(g Gomega) { // the API server takes a moment to use a new policy
				pod := probe(ctx, g, clusterName)
				g.Expect(pod.Annotations).To(Equal(byWebhook.Annotations))
				g.Expect(pod.Spec).To(Equal(byWebhook.Spec), "what the policy makes of a pod, against what the webhook does")
			}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "the policy does not connect pods")
			startEngine(ctx, ruled.name, ruled.node)
			DeferCleanup(removeEngine, ruled)
			ruled.waitReady(ctx)
			exchange(ctx, writer, ruled, 31)
			exchange(ctx, ruled, reader, 32)
		})
		waitForInjection(ctx, "True PolicyReady")
		Expect(policyVersions(ctx, Default)).To(Equal(made), "an operator that starts leaves the policy as it is")

		By("going back to the webhook")
		changeSpec(ctx, setInjection(injection))
		Eventually(func(g Gomega) {
			g.Expect(policyVersions(ctx, g)).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "the policy stays")
		waitForInjection(ctx, "True WebhookReady")
		waitForWebhook(ctx)
		exchange(ctx, ruled, reader, 33)
	}, SpecTimeout(5*time.Minute))
}

func setInjection(injection v1alpha1.InjectionSpec) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Injection = injection }
}

// probe is what becomes of an SGLang pod that asks for a cluster, without creating it.
func probe(ctx context.Context, g Gomega, cluster string) *corev1.Pod {
	pod := enginePod("probe", nodes.third)
	pod.Labels[v1alpha1.LabelInject] = cluster
	pod.Spec.AutomountServiceAccountToken = new(false) // the token's volume has another name every time
	g.Expect(kube.Create(ctx, pod, client.DryRunAll)).To(Succeed())
	return pod
}

// withoutOperator does something while there is no operator and its webhook does not answer any more.
func withoutOperator(ctx context.Context, do func()) {
	defer scaleOperator(context.WithoutCancel(ctx), operators(ctx)) // also when the spec is interrupted
	scaleOperator(ctx, 0)
	Eventually(func(g Gomega) { // one that ends still answers, and a Deployment does not count it
		var pods corev1.PodList
		g.Expect(kube.List(ctx, &pods, client.InNamespace(systemNamespace),
			client.MatchingLabels{"app.kubernetes.io/component": "operator"})).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty(), "pods of the operator")
		g.Expect(probe(ctx, g, "unknown").Annotations).To(BeEmpty(), "of a pod that only the webhook would annotate")
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the webhook is still there")
	do()
}

// waitForInjection waits until the operator has said how pods are connected, by how the condition begins.
func waitForInjection(ctx context.Context, prefix string) {
	Eventually(func(g Gomega) {
		cluster := &v1alpha1.PeerCacheCluster{}
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
		g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionInjectionReady)).To(HavePrefix(prefix))
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
}

// policyVersions are the resource versions of the cluster's policy and its binding, as far as they exist.
func policyVersions(ctx context.Context, g Gomega) map[string]string {
	versions := map[string]string{}
	for kind, object := range map[string]client.Object{
		"policy": &admissionv1.MutatingAdmissionPolicy{}, "binding": &admissionv1.MutatingAdmissionPolicyBinding{},
	} {
		err := kube.Get(ctx, client.ObjectKey{Name: "peercache." + namespace + "." + clusterName}, object)
		if !apierrors.IsNotFound(err) {
			g.Expect(err).NotTo(HaveOccurred())
			versions[kind] = object.GetResourceVersion()
		}
	}
	return versions
}
