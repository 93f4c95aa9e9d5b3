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
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// embeddedSpecs connect an engine by a node in its own process.
func embeddedSpecs() {
	It("by a node inside SGLang's process, which is forgotten when that ends", func(ctx context.Context) {
		since(imageVolumesSince, "image volumes, by which this pod gets the package")
		DeferCleanup(injectBy, nodeInjection(v1alpha1.SocketHostPath), hasSocketVolume(false))
		injectBy(ctx, v1alpha1.InjectionSpec{
			Mode:   v1alpha1.InjectionEmbedded,
			Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("128Mi")},
			Client: v1alpha1.ClientSpec{Delivery: v1alpha1.ClientPreinstalled},
		}, func(pod *corev1.Pod) bool {
			return strings.Contains(strings.Join(pod.Spec.Containers[0].Args, " "), `"global_segment_size":"128Mi"`)
		})
		inside := engine{name: "inside", node: nodes.third}
		written := embeddedPod(inside)
		created := written.DeepCopy()
		Expect(kube.Create(ctx, created)).To(Succeed())
		DeferCleanup(removeEngine, inside)
		Expect(created.Spec.InitContainers).To(BeEmpty())
		Expect(created.Spec.Containers).To(HaveLen(len(written.Spec.Containers)))
		Expect(created.Spec.Containers[0].SecurityContext).To(BeNil())
		for _, v := range created.Spec.Volumes {
			Expect(v.Name).To(Or(Equal("package"), Equal(plan.TokenVolume), Equal(plan.TenantVolume), HavePrefix("kube-api-access-")),
				"volumes besides the user's, Kubernetes' and the nodes' secrets")
		}
		inside.waitReady(ctx)
		first := joined(ctx, inside)

		By("exchanging pages with engines of machines' nodes")
		exchange(ctx, writer, inside, 21)
		exchange(ctx, inside, reader, 22)

		By("being killed: its pages are gone, and it comes back as the same member")
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: freshSeed()}
		writeAllOn(ctx, inside, body)
		_, err := below.exec(ctx, inside.node, "pkill", "-9", "-f", "[s]glang.launch_server")
		Expect(err).NotTo(HaveOccurred())
		got := reader.read(ctx, body)
		Expect(got.Prefetched).To(BeZero(), "tokens of pages that were in the killed process")
		Expect(got.MaxCallSeconds).To(BeNumerically("<=", callBound.Seconds()), "longest call of the reader")
		Eventually(func(g Gomega) {
			pod, err := kube.pod(ctx, namespace, inside.name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pod.Status.ContainerStatuses[0].RestartCount).To(BeEquivalentTo(1))
			g.Expect(ready(pod)).To(BeTrue())
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the engine does not come back")
		Expect(joined(ctx, inside)).NotTo(Equal(first), "the incarnation of a node that was started anew")
		exchange(ctx, inside, reader, 23)

		By("leaving when the pod is deleted")
		deleteAndWait(ctx, created, time.Minute)
		Eventually(func(g Gomega) {
			for _, node := range nodes.all() {
				status, err := nodeStatus(ctx, node)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status.Members).To(HaveLen(len(nodes.all())), "members that %s knows", node)
			}
			cluster := &v1alpha1.PeerCacheCluster{}
			g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
			g.Expect(cluster.Status.ActiveMembers).To(BeEquivalentTo(len(nodes.all())), "status.activeMembers")
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "a node that is gone stays a member")
		exchange(ctx, writer, reader, 24)
	}, SpecTimeout(5*time.Minute))
}

// embeddedPod is an engine with the package that has a node in it. A user's image would bring both; here the package is
// a volume, because the engine's image is large.
func embeddedPod(e engine) *corev1.Pod {
	pod := enginePod(e.name, e.node)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30)) // to leave in
	pod.Spec.Volumes = []corev1.Volume{{Name: "package", VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{
			Reference: "ghcr.io/peercache/peercache/embedded:" + version(), PullPolicy: corev1.PullIfNotPresent,
		},
	}}}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "package", MountPath: "/opt/embedded"}}
	c.Env = []corev1.EnvVar{
		{Name: "PYTHONPATH", Value: "/opt/embedded/python"}, {Name: "LD_LIBRARY_PATH", Value: "/opt/embedded/lib"},
	}
	return pod
}

// joined waits until every node knows the one inside an engine, once, and returns its incarnation.
func joined(ctx context.Context, e engine) (incarnation uint64) {
	Eventually(func(g Gomega) {
		pod, err := kube.pod(ctx, namespace, e.name)
		g.Expect(err).NotTo(HaveOccurred())
		own, err := statusOf(ctx, pod)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(own.Node.ID).To(Equal(namespace+"."+e.name+".engine.1"), "it is named after the pod, its container and its process")
		incarnation = own.Node.Incarnation
		for _, node := range nodes.all() {
			status, err := nodeStatus(ctx, node)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.Members).To(HaveLen(len(nodes.all())+1), "members that %s knows", node)
			g.Expect(status.healthyMembers()).To(Equal(len(status.Members)), "healthy of the members that %s knows: %v", node, status.Members)
			g.Expect(status.Members).To(ContainElement(And(
				HaveField("ID", own.Node.ID), HaveField("Incarnation", incarnation))), "members that %s knows", node)
		}
	}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "the node inside %s is no member", e.name)
	return incarnation
}
