// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const foreign = "peercache-e2e-foreign" // a namespace

// networkPolicySpecs have a network plug-in enforce the policy that the operator makes, between pods of one machine and of two.
func networkPolicySpecs() {
	It("from which its NetworkPolicy keeps other pods, and those alone", func(ctx context.Context) {
		createNamespace(ctx, foreign)
		// Labels count in the cluster's own namespace alone.
		outside := strangerPod(foreign, map[string]string{v1alpha1.LabelCluster: clusterName, "app.kubernetes.io/component": "node"})
		beside := strangerPod(namespace, map[string]string{"app": "other"})
		// Injection gives these labels to a pod with a node inside.
		within := strangerPod(namespace, map[string]string{v1alpha1.LabelInject: clusterName, v1alpha1.LabelGroup: "default"})
		within.Name = "with-node-inside"
		DeferCleanup(func(ctx context.Context) {
			changeSpec(ctx, reachedBy(v1alpha1.NetworkPolicyPeers))
			deleteAndWait(ctx, beside, time.Minute)
			deleteAndWait(ctx, within, time.Minute)
			deleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: foreign}}, time.Minute)
			Expect(below.policies(ctx, "down")).To(Succeed())
		}, NodeTimeout(longest))
		for _, pod := range []*corev1.Pod{outside, beside, within} {
			Expect(kube.Create(ctx, pod)).To(Succeed())
		}
		for _, pod := range []*corev1.Pod{outside, beside, within} {
			Eventually(func(g Gomega) {
				now, err := kube.pod(ctx, pod.Namespace, pod.Name)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(ready(now)).To(BeTrue())
			}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		}
		expectReached := func(reached bool) {
			Eventually(func(g Gomega) {
				for _, pod := range []*corev1.Pod{outside, beside} {
					for machine, node := range nodePods(ctx) {
						g.Expect(reaches(ctx, pod, node, peerPort)).To(Equal(reached), "%s/%s on %s reaches the node on %s",
							pod.Namespace, pod.Name, nodes.third, machine)
					}
				}
			}).WithContext(ctx).WithTimeout(hang).Should(Succeed())
		}
		Expect(below.policies(ctx, "up")).To(Succeed())
		expectReached(false)

		By("which holds for a node that comes, and becomes one of the others")
		former, err := nodePod(ctx, nodes.writer)
		Expect(err).NotTo(HaveOccurred())
		Expect(kube.Delete(ctx, former)).To(Succeed())
		Eventually(func(g Gomega) {
			now, err := nodePod(ctx, nodes.writer)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.UID).NotTo(Equal(former.UID))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		waitForNodes(ctx) // they have a probe's answer as well
		expectReached(false)
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: freshSeed()}
		expectRead(ctx, reader, body, writeAll(ctx, body))

		By("and leaves members, pods with a node inside and Prometheus their ways")
		engine, err := kube.pod(ctx, namespace, reader.name)
		Expect(err).NotTo(HaveOccurred())
		for _, node := range nodePods(ctx) {
			for _, from := range nodePods(ctx) {
				Expect(reaches(ctx, from, node, peerPort)).To(BeTrue(), "%s reaches %s", from.Name, node.Name)
			}
			Expect(reaches(ctx, within, node, peerPort)).To(BeTrue(), "%s reaches %s", within.Name, node.Name)
			Expect(reaches(ctx, engine, node, peerPort)).To(BeFalse(), "%s has the socket of its node, and reaches %s", engine.Name, node.Name)
			Expect(reaches(ctx, outside, node, monitoringPort)).To(BeTrue(), "another namespace's pod reaches the metrics of %s", node.Name)
		}

		By("until the cluster wants none")
		changeSpec(ctx, reachedBy(v1alpha1.NetworkPolicyNone))
		expectReached(true) // so it was the policy
		changeSpec(ctx, reachedBy(v1alpha1.NetworkPolicyPeers))
		expectReached(false)
	}, SpecTimeout(5*time.Minute))
}

func reachedBy(policy v1alpha1.NetworkPolicyKind) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Security.NetworkPolicy = policy }
}

// strangerPod is on the machine that has a node and no engine.
func strangerPod(in string, labels map[string]string) *corev1.Pod {
	pod := enginePod("stranger", nodes.third)
	pod.Namespace, pod.Labels = in, labels
	pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args = []string{"sleep", "infinity"}, nil
	pod.Spec.Containers[0].ReadinessProbe = nil
	return pod
}

// reaches tells whether a pod can connect to a port of another, or of itself.
func reaches(ctx context.Context, from, to *corev1.Pod, port int) bool {
	connect := fmt.Sprintf("if timeout 2 bash -c ': < /dev/tcp/%s/%d' 2>/dev/null; then echo yes; else echo no; fi", to.Status.PodIP, port)
	said, err := kube.exec(ctx, from.Namespace, from.Name, "", "sh", "-c", connect)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(said) == "yes"
}
