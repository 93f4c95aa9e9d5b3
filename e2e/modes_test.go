// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// modePages fit several times into the small pool of a sidecar.
const modePages = 60

// imageVolumesSince is the minor version of Kubernetes that has them without a feature gate.
const imageVolumesSince = 35

// modeSpecs connect further engines in ways other than the usual. How pods are connected can be changed at any time:
// those that run, writer and reader, keep their way.
func modeSpecs() {
	It("by a sidecar, with the client in an image volume where Kubernetes has these", func(ctx context.Context) {
		injection, containers := smallSidecar(), 1 // init containers: the sidecar alone
		if kube.minor < imageVolumesSince {
			changeSpec(ctx, setInjection(injection))
			waitForInjection(ctx, "False ImageVolumesRemoved")
			injection.Client.Delivery = v1alpha1.ClientInitContainer
			containers++
		}
		injectBy(ctx, injection, func(pod *corev1.Pod) bool {
			return len(pod.Spec.InitContainers) == containers &&
				slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "peercached" })
		})
		beside := startEngine(ctx, "beside", nodes.third)
		DeferCleanup(removeEngine, beside)
		beside.waitReady(ctx)

		pod, err := kube.pod(ctx, namespace, beside.name)
		Expect(err).NotTo(HaveOccurred())
		for _, v := range pod.Spec.Volumes {
			Expect(v.HostPath).To(BeNil(), "volume %s is a directory of the machine", v.Name)
		}
		Expect(pod.Status.InitContainerStatuses).To(HaveLen(containers))
		Expect(pod.Status.InitContainerStatuses).To(ContainElement(And(
			HaveField("Name", "peercached"), HaveField("Started", HaveValue(BeTrue())))), "the sidecar runs")
		Eventually(func(g Gomega) {
			status, err := nodeStatus(ctx, nodes.writer)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.healthyMembers()).To(Equal(len(nodes.all())+1), "members: %v", status.Members)
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed())

		By("reading what an engine of a machine's node wrote")
		exchange(ctx, writer, beside, 1)
		By("writing what an engine of a machine's node reads")
		exchange(ctx, beside, reader, 2)
	}, SpecTimeout(4*time.Minute))

	AfterAll(func(ctx context.Context) {
		injectBy(ctx, v1alpha1.InjectionSpec{Mode: v1alpha1.InjectionNode, Client: v1alpha1.ClientSpec{
			Delivery: v1alpha1.ClientInitContainer,
		}}, func(pod *corev1.Pod) bool {
			return len(pod.Spec.InitContainers) == 1 && pod.Spec.InitContainers[0].Name == "peercache-client"
		})
	}, NodeTimeout(longest))
}

// smallSidecar fits beside everything else on a machine of a test.
func smallSidecar() v1alpha1.InjectionSpec {
	return v1alpha1.InjectionSpec{
		Mode:   v1alpha1.InjectionSidecar,
		Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("128Mi")},
		Resources: &v1alpha1.ResourcesSpec{
			CPU: resource.MustParse("100m"), MemoryOverhead: resource.MustParse("256Mi"),
		},
		Client: v1alpha1.ClientSpec{Delivery: v1alpha1.ClientImageVolume},
	}
}

// injectBy changes how pods are connected and waits until the webhook has heard of it.
func injectBy(ctx context.Context, injection v1alpha1.InjectionSpec, as func(*corev1.Pod) bool) {
	injectFor(ctx, clusterName, injection, as)
}

func injectFor(ctx context.Context, cluster string, injection v1alpha1.InjectionSpec, as func(*corev1.Pod) bool) {
	changeSpecOf(ctx, cluster, setInjection(injection))
	Eventually(func(g Gomega) {
		pod := probe(ctx, g, cluster)
		g.Expect(as(pod)).To(BeTrue(), "annotations %v, init containers %v", pod.Annotations, pod.Spec.InitContainers)
	}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "pods are not connected by %+v", injection)
}

// exchange has one engine write pages and another read them.
func exchange(ctx context.Context, from, to engine, seed int) {
	const tokens = modePages * pageTokens
	body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: int(time.Now().Unix()%1_000_000)*100 + 50 + seed}
	wrote, got := from.write(ctx, body), to.read(ctx, body)
	Expect(wrote.Backup).To(Equal(tokens), "tokens that %s wrote", from.name)
	Expect(got.Prefetched).To(Equal(tokens), "tokens that %s got", to.name)
	Expect(rightPages(to, got, wrote.SHA256s)).To(Equal(modePages), "pages that hit")
	Expect(wrote.SharedMemory && got.SharedMemory).To(BeTrue(), "host pools that are shared with the node")
}
