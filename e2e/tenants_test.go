// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	tenant        = "peercache-e2e-tenant"
	togetherName  = "together"
	togetherLabel = "e2e.peercache.io/together" // of the machine that takes part
)

// tenantSpecs connect engines of a second namespace, which admits hostPath, to the suite's cluster. All engines run one
// model, so they ask for the same pages by the same names.
func tenantSpecs() {
	byPath := engine{name: "by-path", namespace: tenant}

	BeforeAll(func(ctx context.Context) {
		byPath.node = nodes.third
		createNamespace(ctx, tenant)
		DeferCleanup(func(ctx context.Context) {
			injectBy(ctx, nodeInjection(v1alpha1.SocketHostPath), hasSocketVolume(false))
			deleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, time.Minute)
		}, NodeTimeout(longest))
	}, NodeTimeout(longest))

	It("with pages apart from those of another namespace, by hostPath", func(ctx context.Context) {
		injectBy(ctx, tenantInjection(v1alpha1.SocketHostPath), hasSocketVolume(false))
		startGuest(ctx, clusterName, byPath)
		expectApart(ctx, byPath)
	}, SpecTimeout(5*time.Minute))

	It("with pages apart from those of another namespace, by a CSI volume", func(ctx context.Context) {
		injectBy(ctx, tenantInjection(v1alpha1.SocketCSI), hasSocketVolume(true))
		byCSI := engine{name: "by-csi", node: nodes.reader, namespace: tenant}
		startGuest(ctx, clusterName, byCSI)
		expectApart(ctx, byCSI)

		By("which the engines of one namespace share, whichever way they are connected")
		exchange(ctx, byPath, byCSI, 21)
		exchange(ctx, byCSI, byPath, 22)
		sees, err := kube.exec(ctx, tenant, byCSI.name, "", "sh", "-c", "ls /run/peercache; ls /run/peercache/..")
		Expect(err).NotTo(HaveOccurred())
		Expect(sees).NotTo(ContainSubstring(namespace), "folders of sockets that the engine sees")
	}, SpecTimeout(5*time.Minute))

	It("with the pages of all namespaces where the cluster says so", func(ctx context.Context) {
		labelMachine(ctx, nodes.third, togetherLabel, "true")
		cluster := sharedByAll()
		Expect(kube.Create(ctx, cluster)).To(Succeed())
		own := engine{name: "together-own", node: nodes.third, namespace: namespace}
		guest := engine{name: "together-guest", node: nodes.third, namespace: tenant}
		DeferCleanup(func(ctx context.Context) {
			for _, e := range []engine{own, guest} {
				deleteAndWait(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: e.name}}, time.Minute)
			}
			deleteAndWait(ctx, sharedByAll(), time.Minute)
			Eventually(func() []string { return podsFor(ctx, togetherName) }).WithContext(ctx).WithTimeout(90 * time.Second).Should(BeEmpty())
			labelMachine(ctx, nodes.third, togetherLabel, nil)
		}, NodeTimeout(4*time.Minute))
		Eventually(func() string { return conditionMessage(clusterNamed(ctx, togetherName), v1alpha1.ConditionReady) }).
			WithContext(ctx).WithTimeout(2 * time.Minute).Should(HavePrefix("True"))
		startGuest(ctx, togetherName, own)
		startGuest(ctx, togetherName, guest)

		body := tenantRequest()
		expectRead(ctx, guest, body, own.write(ctx, body))
		body = tenantRequest()
		wrote := guest.write(ctx, body)
		expectRead(ctx, own, body, wrote)

		By("which then any of them clears")
		_, err := guest.do(ctx, "clear", body)
		Expect(err).NotTo(HaveOccurred())
		Expect(own.read(ctx, body).Prefetched).To(BeZero(), "tokens of pages that were cleared")
	}, SpecTimeout(6*time.Minute))
}

func tenantInjection(socket v1alpha1.SocketDelivery) v1alpha1.InjectionSpec {
	injection := nodeInjection(socket)
	injection.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: tenant}}
	return injection
}

// sharedByAll is a small cluster on one machine.
func sharedByAll() *v1alpha1.PeerCacheCluster {
	return &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: togetherName},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Sharing:     v1alpha1.SharingCluster,
			Nodes:       v1alpha1.NodesSpec{Selector: map[string]string{togetherLabel: "true"}},
			Memory:      v1alpha1.MemorySpec{Pool: resource.MustParse("128Mi")},
			Injection:   tenantInjection(v1alpha1.SocketHostPath),
			PodTemplate: smallMembers(),
		},
	}
}

func tenantRequest() request {
	return request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: freshSeed()}
}

// startGuest starts an engine for a cluster of the suite's namespace, when the webhook connects such pods.
func startGuest(ctx context.Context, cluster string, e engine) {
	pod := enginePod(e.name, e.node)
	pod.Namespace, pod.Labels[v1alpha1.LabelInject] = e.namespace, cluster
	pod.Annotations = map[string]string{v1alpha1.AnnotationClusterNamespace: namespace}
	Eventually(func(g Gomega) {
		try := pod.DeepCopy()
		g.Expect(kube.Create(ctx, try, client.DryRunAll)).To(Succeed())
		g.Expect(try.Annotations).To(HaveKeyWithValue("peercache.io/injected", cluster))
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the webhook does not connect pods of %s to %s", e.namespace, cluster)
	Expect(kube.Create(ctx, pod)).To(Succeed())
	e.waitReady(ctx)
}

// expectApart has an engine of another namespace ask for pages that the suite's namespace has, store pages by the same names
// and clear them.
func expectApart(ctx context.Context, guest engine) {
	body := tenantRequest()
	wrote := writeAll(ctx, body)
	Expect(guest.read(ctx, body).Prefetched).To(BeZero(), "tokens of pages of another namespace")

	Eventually(func(g Gomega) { // an engine that has just started takes a moment to be attached
		own, err := guest.do(ctx, "write", body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(own.Backup).To(Equal(body.Pages*pageTokens), "tokens that %s wrote", guest.name)
		expectFound(ctx, g, guest, body, own)
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())

	By("clearing what the one namespace has, and not what the other has")
	_, err := guest.do(ctx, "clear", body)
	Expect(err).NotTo(HaveOccurred())
	Expect(guest.read(ctx, body).Prefetched).To(BeZero(), "tokens of pages that were cleared")
	expectFound(ctx, Default, reader, body, wrote)

	By("and the other way round")
	own := guest.write(ctx, body)
	_, err = writer.do(ctx, "clear", body)
	Expect(err).NotTo(HaveOccurred())
	Expect(reader.read(ctx, body).Prefetched).To(BeZero(), "tokens of pages that were cleared")
	expectFound(ctx, Default, guest, body, own)

	fresh := tenantRequest()
	writeAll(ctx, fresh)
	Expect(guest.read(ctx, fresh).Prefetched).To(BeZero(), "tokens of pages of another namespace")
}

// expectFound has an engine read all pages of a request.
func expectFound(ctx context.Context, g Gomega, e engine, body request, wrote result) {
	got, err := e.do(ctx, "read", body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rightPages(e, got, wrote.SHA256s)).To(Equal(body.Pages), "pages that %s found", e.name)
}
