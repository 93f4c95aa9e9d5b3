// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/markdown"
	"github.com/peercache/peercache/operator/plan"
)

const (
	claimsGuide = "../docs/install/dra.md"
	claimsPages = 60
)

// claimSpecs follow the guide to DRA with its own manifests, on all three machines: two have ports that a driver offers,
// the third has none. Of each machine's four ports rail0 and rail3 are on one NUMA node, rail1 and rail2 on another. There is
// no RDMA behind them, so pages go by TCP.
func claimSpecs() {
	var (
		class    = &resourcev1.DeviceClass{}
		template = &resourcev1.ResourceClaimTemplate{}
		cluster  = &v1alpha1.PeerCacheCluster{}
		from, to engine
	)
	withPorts := func() []string { return []string{nodes.writer, nodes.reader} }
	label := func(ctx context.Context, machine string, value any) {
		for key := range cluster.Spec.Nodes.Selector {
			labelMachine(ctx, machine, key, value)
		}
	}

	BeforeAll(func(ctx context.Context) {
		since(34, "resource.k8s.io/v1")
		fromGuide(class, template, cluster)
		cluster.Name = "claimed" // the suite's own cluster has the guide's name
		Expect(client.IgnoreNotFound(kube.Delete(ctx, class))).To(Succeed(), "a former run may have left it")
		Expect(below.dra(ctx, "down")).To(Succeed(), "a former run may have left it")
		for _, machine := range nodes.all() {
			label(ctx, machine, "true")
		}
		// Less of everything, and TCP where there is no RDMA.
		cluster.Spec.Transport = v1alpha1.TransportAuto
		cluster.Spec.Memory.Pool = resource.MustParse("128Mi")
		cluster.Spec.Resources = v1alpha1.ResourcesSpec{}
		cluster.Spec.PodTemplate = smallMembers()
		cluster.Spec.Mode = v1alpha1.ModePlan
		Expect(kube.Create(ctx, cluster)).To(Succeed())
	}, NodeTimeout(longest))

	AfterAll(func(ctx context.Context) {
		if cluster.Name == "" { // skipped
			return
		}
		for _, machine := range nodes.all() {
			label(ctx, machine, nil)
		}
		for _, e := range []engine{from, to} {
			removeEngine(ctx, e)
		}
		deleteAndWait(ctx, cluster, time.Minute)
		deleteAndWait(ctx, template, time.Minute)
		deleteAndWait(ctx, class, time.Minute)
		Expect(below.dra(ctx, "down")).To(Succeed())
	}, NodeTimeout(longest))

	It("is told which template is missing before any pod starts", func(ctx context.Context) {
		expectPlanned(ctx, cluster.Name, v1alpha1.ConditionDevicesAvailable, "False ClaimTemplateMissing: ResourceClaimTemplate "+
			template.Name+" does not exist in namespace "+namespace+": create it, or correct rails[].dra.resourceClaimTemplate")
	}, SpecTimeout(longest))

	It("runs where ports satisfy its claim, and says what keeps it from another machine", func(ctx context.Context) {
		Expect(below.dra(ctx, "up")).To(Succeed())
		Expect(kube.Create(ctx, class)).To(Succeed())
		Expect(kube.Create(ctx, template)).To(Succeed())
		changeSpecOf(ctx, cluster.Name, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Mode = v1alpha1.ModeApply })
		Eventually(func(g Gomega) {
			for _, machine := range withPorts() {
				pod, err := podOf(ctx, cluster.Name, machine)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(ready(pod)).To(BeTrue(), "%s is %s", pod.Name, pod.Status.Phase)
				g.Expect(claimedPorts(ctx, pod)).To(bePairOf(machine))
			}
			now := clusterNamed(ctx, cluster.Name)
			g.Expect(now.Status.ReadyMembers).To(BeEquivalentTo(2))
			g.Expect(conditionMessage(now, v1alpha1.ConditionReady)).To(HavePrefix("False MembersBroken: 2/3 members are ready; "))
			g.Expect(conditionMessage(now, v1alpha1.ConditionDegraded)).To(And(
				HavePrefix("True Unschedulable: pod "), ContainSubstring("cannot allocate all claims"),
				ContainSubstring("kubectl get resourceslices"), ContainSubstring("spec.nodes.selector")))
			g.Expect(conditionMessage(now, v1alpha1.ConditionRailsHealthy)).To(HavePrefix(
				"False RailsMissing: members have opened fewer rails than the spec names: group default: 0 instead of 4 on 2 members"))
		}).WithContext(ctx).WithTimeout(3 * time.Minute).Should(Succeed())
		AddReportEntry("Degraded", conditionMessage(clusterNamed(ctx, cluster.Name), v1alpha1.ConditionDegraded))

		By("which the pods have, and others do not")
		for _, machine := range withPorts() {
			pod, err := podOf(ctx, cluster.Name, machine)
			Expect(err).NotTo(HaveOccurred())
			Expect(portsInside(ctx, pod, plan.ContainerName)).To(ConsistOf(claimedPorts(ctx, pod)))
			other, err := nodePod(ctx, machine)
			Expect(err).NotTo(HaveOccurred())
			Expect(portsInside(ctx, other, plan.ContainerName)).To(BeEmpty(), "a pod without a claim")
		}

		By("without the machine that has no ports")
		label(ctx, nodes.third, nil)
		Eventually(func(g Gomega) {
			now := clusterNamed(ctx, cluster.Name)
			g.Expect(conditionMessage(now, v1alpha1.ConditionReady)).To(Equal("True AllMembersReady: 2/2 members serve"))
			g.Expect(conditionMessage(now, v1alpha1.ConditionDegraded)).To(Equal("False NoFaults: no member is broken"))
			g.Expect(claims(ctx)).To(HaveLen(2))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("has sidecars with claims of their own, and carries pages to them", func(ctx context.Context) {
		from = startEngineOf(ctx, cluster.Name, "claimed-writer", nodes.writer)
		injectFor(ctx, cluster.Name, smallSidecar(), func(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 })
		to = startEngineOf(ctx, cluster.Name, "claimed-reader", nodes.reader)
		from.waitReady(ctx)
		to.waitReady(ctx)
		waitAttached(ctx, to, time.Minute) // SGLang does not wait for its sidecar

		pod, err := kube.pod(ctx, namespace, to.name)
		Expect(err).NotTo(HaveOccurred())
		node, err := podOf(ctx, cluster.Name, nodes.reader)
		Expect(err).NotTo(HaveOccurred())
		ports := claimedPorts(ctx, pod)
		Expect(ports).To(bePairOf(nodes.reader))
		Expect(ports).NotTo(ContainElement(BeElementOf(claimedPorts(ctx, node))), "ports of the machine's member")
		Expect(portsInside(ctx, pod, plan.ContainerName)).To(ConsistOf(ports))
		Expect(portsInside(ctx, pod, "engine")).To(BeEmpty())
		expectCarried(ctx, from, to)
	}, SpecTimeout(4*time.Minute))

	It("gets its machine's ports again when a member is replaced", func(ctx context.Context) {
		old, err := podOf(ctx, cluster.Name, nodes.reader)
		Expect(err).NotTo(HaveOccurred())
		ports, before := claimedPorts(ctx, old), claims(ctx)
		deleteAndWait(ctx, old, time.Minute)
		// The others are the sidecar's: those of the former node have been given back.
		Eventually(func(g Gomega) {
			pod, err := podOf(ctx, cluster.Name, nodes.reader)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ready(pod)).To(BeTrue(), "%s is %s", pod.Name, pod.Status.Phase)
			g.Expect(claimedPorts(ctx, pod)).To(ConsistOf(ports))
			g.Expect(claims(ctx)).To(HaveLen(len(before)))
			g.Expect(preparedOn(ctx, nodes.reader)).To(HaveLen(2), "of member and sidecar")
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
		Expect(claims(ctx)).NotTo(ConsistOf(before), "names of the claims")
		expectCarried(ctx, to, from)
	}, SpecTimeout(4*time.Minute))

	It("gives claims back when SGLang's pod, and when the cluster is deleted", func(ctx context.Context) {
		for _, e := range []engine{to, from} {
			removeEngine(ctx, e)
		}
		Eventually(func(g Gomega) {
			g.Expect(claims(ctx)).To(HaveLen(len(withPorts())), "without the sidecar's")
			g.Expect(preparedOn(ctx, nodes.reader)).To(HaveLen(1))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		deleteAndWait(ctx, clusterNamed(ctx, cluster.Name), time.Minute)
		Eventually(func(g Gomega) {
			g.Expect(podsFor(ctx, cluster.Name)).To(BeEmpty())
			g.Expect(claims(ctx)).To(BeEmpty())
			for _, machine := range withPorts() {
				g.Expect(preparedOn(ctx, machine)).To(BeEmpty(), "claims prepared on %s", machine)
			}
		}).WithContext(ctx).WithTimeout(90 * time.Second).Should(Succeed())
	}, SpecTimeout(longest))
}

// fromGuide reads the guide's manifests, in the order of the objects, for the namespace of the suite.
func fromGuide(objects ...client.Object) {
	page, err := markdown.Read(claimsGuide)
	Expect(err).NotTo(HaveOccurred())
	var texts []string
	for _, block := range page.Blocks {
		if block.Language == "yaml" {
			texts = append(texts, strings.Split(block.Text, "---\n")...)
		}
	}
	Expect(len(texts)).To(BeNumerically(">=", len(objects)))
	for i, object := range objects {
		Expect(yaml.UnmarshalStrict([]byte(texts[i]), object)).To(Succeed(), texts[i])
		if object.GetNamespace() != "" {
			object.SetNamespace(namespace)
		}
	}
}

// claims names those of the namespace.
func claims(ctx context.Context) (names []string) {
	var list resourcev1.ResourceClaimList
	Expect(kube.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	for _, claim := range list.Items {
		names = append(names, claim.Name)
	}
	return names
}

// claimedPorts are what the pod's claims were allocated, as pool/device.
func claimedPorts(ctx context.Context, pod *corev1.Pod) (ports []string) {
	for _, status := range pod.Status.ResourceClaimStatuses {
		claim := &resourcev1.ResourceClaim{}
		Expect(kube.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: *status.ResourceClaimName}, claim)).To(Succeed())
		Expect(claim.Status.ReservedFor).To(HaveExactElements(HaveField("UID", pod.UID)), "claim %s is reserved for", claim.Name)
		for _, device := range claim.Status.Allocation.Devices.Results {
			ports = append(ports, device.Pool+"/"+device.Device)
		}
	}
	return ports
}

// bePairOf matches two ports of a machine that are on one NUMA node.
func bePairOf(machine string) types.GomegaMatcher {
	return Or(ConsistOf(machine+"/rail0", machine+"/rail3"), ConsistOf(machine+"/rail1", machine+"/rail2"))
}

// portsInside are those that the container runtime put into a container on behalf of the driver, as pool/device.
func portsInside(ctx context.Context, pod *corev1.Pod, container string) (ports []string) {
	text, err := output(ctx, "kubectl", "exec", "-n", pod.Namespace, pod.Name, "-c", container, "--",
		"sh", "-c", "cd /dev; for p in ports/*; do [ ! -c $p ] || echo ${p#*/}; done")
	Expect(err).NotTo(HaveOccurred())
	for port := range strings.FieldsSeq(text) {
		ports = append(ports, pod.Spec.NodeName+"/"+port)
	}
	return ports
}

// preparedOn lists what the driver keeps on a machine for claims.
func preparedOn(ctx context.Context, machine string) []string {
	text, err := below.exec(ctx, machine, "sh", "-c", "ls /run/cdi")
	Expect(err).NotTo(HaveOccurred())
	return strings.Fields(text)
}

// expectCarried has pages written at one machine and read at another.
func expectCarried(ctx context.Context, from, to engine) {
	body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: claimsPages, Seed: freshSeed()}
	wrote := writeAllOn(ctx, from, body)
	expectRead(ctx, to, body, wrote)
}
