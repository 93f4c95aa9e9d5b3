// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	restricted = "peercache-e2e-restricted"
	stranger   = "peercache-e2e-stranger"
	enforced   = "pod-security.kubernetes.io/enforce=restricted"
)

// restrictedSpecs connect engines of namespaces that admit no hostPath, by volumes of the CSI driver.
func restrictedSpecs() {
	BeforeAll(func(ctx context.Context) {
		createNamespace(ctx, restricted, enforced)
		createNamespace(ctx, stranger, enforced)
		DeferCleanup(func(ctx context.Context) {
			injectBy(ctx, nodeInjection(v1alpha1.SocketHostPath), hasSocketVolume(false))
			for _, name := range []string{restricted, stranger} {
				deleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, time.Minute)
			}
		}, NodeTimeout(longest))
	}, NodeTimeout(longest))

	It("but leaves them alone where Pod Security admits no hostPath", func(ctx context.Context) {
		injectBy(ctx, guestInjection(v1alpha1.SocketHostPath), hasSocketVolume(false))
		Eventually(func(g Gomega) { // until the webhook has heard of the selector
			pod := restrictedPod("by-path", nodes.third, restricted)
			g.Expect(kube.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			g.Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/skip-reason", ContainSubstring(`Pod Security "restricted"`)))
			g.Expect(pod.Annotations).NotTo(HaveKey("peercache.io/injected"))
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed())
	}, SpecTimeout(longest))

	It("by a CSI volume where Pod Security is restricted, across restarts of node and driver", func(ctx context.Context) {
		injectBy(ctx, guestInjection(v1alpha1.SocketCSI), hasSocketVolume(true))
		guest := engine{name: "guest", node: nodes.third, namespace: restricted}
		other := engine{name: "other", node: nodes.reader, namespace: restricted}
		for _, e := range []engine{guest, other} {
			Expect(kube.Create(ctx, restrictedPod(e.name, e.node, restricted))).To(Succeed())
		}
		guest.waitReady(ctx)
		other.waitReady(ctx)
		pod, err := kube.pod(ctx, restricted, guest.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/injected", clusterName))
		exchange(ctx, other, guest, 11)
		exchange(ctx, guest, other, 12)

		By("which the engine cannot change")
		_, err = kube.exec(ctx, restricted, guest.name, "", "touch", "/run/peercache/other.sock")
		Expect(err).To(MatchError(ContainSubstring("Read-only file system")))

		By("going on when the machine's node is replaced")
		node, err := nodePod(ctx, nodes.third)
		Expect(err).NotTo(HaveOccurred())
		deleteAndWait(ctx, node, time.Minute)
		waitForNodes(ctx)
		exchange(ctx, guest, other, 13)

		By("going on when the driver is replaced")
		replaceDriver(ctx, nodes.third)
		exchange(ctx, other, guest, 14)

		By("unmounting when the pod ends")
		deleteAndWait(ctx, pod, time.Minute)
		Eventually(func() (string, error) {
			return below.exec(ctx, nodes.third, "sh", "-c", "grep -c pods/"+string(pod.UID)+" /proc/self/mountinfo || true")
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Equal("0\n"), "mounts of the pod that is gone")
	}, SpecTimeout(5*time.Minute))

	It("but not from a namespace that the cluster does not serve, whatever its pods ask of the driver", func(ctx context.Context) {
		injectBy(ctx, guestInjection(v1alpha1.SocketCSI), hasSocketVolume(true))
		pod := restrictedPod("stranger", nodes.third, stranger)
		delete(pod.Labels, v1alpha1.LabelInject)
		pod.Spec.Volumes = []corev1.Volume{{Name: "socket", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: "csi.peercache.io", ReadOnly: new(true), VolumeAttributes: map[string]string{
				"namespace": namespace, "cluster": clusterName,
				// What the kubelet says counts, not this.
				"csi.storage.k8s.io/pod.namespace": restricted,
			},
		}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "socket", MountPath: "/run/peercache"}}
		Expect(kube.Create(ctx, pod)).To(Succeed())
		Eventually(func(g Gomega) {
			var events corev1.EventList
			g.Expect(kube.List(ctx, &events, client.InNamespace(stranger))).To(Succeed())
			var messages []string
			for _, event := range events.Items {
				if event.Reason == "FailedMount" {
					messages = append(messages, event.Message)
				}
			}
			g.Expect(strings.Join(messages, "\n")).To(ContainSubstring("serves no pods of namespace " + stranger))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "no event says why the volume is refused")
		got, err := kube.pod(ctx, stranger, pod.Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Status.Phase).To(Equal(corev1.PodPending))
	}, SpecTimeout(longest))
}

func nodeInjection(socket v1alpha1.SocketDelivery) v1alpha1.InjectionSpec {
	return v1alpha1.InjectionSpec{Mode: v1alpha1.InjectionNode, Socket: socket, Client: v1alpha1.ClientSpec{
		Delivery: v1alpha1.ClientInitContainer,
	}}
}

// guestInjection serves the namespace of the guests, too.
func guestInjection(socket v1alpha1.SocketDelivery) v1alpha1.InjectionSpec {
	injection := nodeInjection(socket)
	injection.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: restricted}}
	return injection
}

func hasSocketVolume(byCSI bool) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, v := range pod.Spec.Volumes {
			if v.Name == "peercache-socket" {
				return (v.CSI != nil) == byCSI
			}
		}
		return false
	}
}

// restrictedPod is an engine that Pod Security restricted admits.
func restrictedPod(name, node, in string) *corev1.Pod {
	pod := enginePod(name, node)
	pod.Namespace = in
	pod.Annotations = map[string]string{v1alpha1.AnnotationClusterNamespace: namespace}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return pod
}

// replaceDriver deletes the driver's pod on a machine and waits until the kubelet has registered the next one.
func replaceDriver(ctx context.Context, node string) {
	find := func() (*corev1.Pod, error) {
		var pods corev1.PodList
		err := kube.List(ctx, &pods, client.InNamespace(systemNamespace), client.MatchingLabels{"app.kubernetes.io/component": "csi"})
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == node {
				return &pods.Items[i], err
			}
		}
		return nil, err
	}
	old, err := find()
	Expect(err).NotTo(HaveOccurred())
	Expect(old).NotTo(BeNil(), "no CSI driver runs on %s", node)
	Expect(kube.Delete(ctx, old)).To(Succeed())
	Eventually(func(g Gomega) {
		pod, err := find()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pod).NotTo(BeNil())
		g.Expect(pod.UID).NotTo(Equal(old.UID))
		g.Expect(ready(pod)).To(BeTrue())
	}).WithContext(ctx).WithTimeout(90*time.Second).Should(Succeed(), "the driver does not come back on %s", node)
}
