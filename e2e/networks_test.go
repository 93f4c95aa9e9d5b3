// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	fabricCluster   = "fabric"
	fabricLabel     = "e2e.peercache.io/fabric" // of machines that take part
	fabricInterface = "rail0"                   // in the pods
	fabricPort      = "fabric0"                 // of the machines: `cluster fabric up`
	fabricRange     = "192.168.77.0/24"
	fabricResource  = "rdma/rail0"
	fabricPages     = 300
)

// networkSpecs bring up a second cluster, on two machines, whose pages have a network of their own: made by the
// operator, attached by Multus, addressed by whereabouts. There is no RDMA here, so pages go over it by TCP, and a
// device plug-in without devices stands for the real one, until the rail does without.
func networkSpecs() {
	machines := func() []string { return []string{nodes.writer, nodes.reader} }
	var from, to engine

	BeforeAll(func(ctx context.Context) {
		Expect(below.fabric(ctx, "down")).To(Succeed(), "a former run may have left it")
		for _, machine := range machines() {
			labelMachine(ctx, machine, fabricLabel, "true")
		}
		// Only a plan, so far: no pod starts before there is what it needs.
		Expect(kube.Create(ctx, overFabric(v1alpha1.ModePlan))).To(Succeed())
	}, NodeTimeout(longest))

	AfterAll(func(ctx context.Context) {
		for _, e := range []engine{from, to} {
			removeEngine(ctx, e)
		}
		deleteAndWait(ctx, overFabric(v1alpha1.ModePlan), time.Minute)
		// Multus takes back what it gave.
		Eventually(func() []string { return podsFor(ctx, fabricCluster) }).WithContext(ctx).WithTimeout(90 * time.Second).Should(BeEmpty())
		for _, machine := range machines() {
			labelMachine(ctx, machine, fabricLabel, nil)
		}
		Expect(below.fabric(ctx, "down")).To(Succeed())
	}, NodeTimeout(4*time.Minute))

	It("is told what is missing before any pod starts", func(ctx context.Context) {
		expectPlanned(ctx, fabricCluster, v1alpha1.ConditionNetworksResolved, "False MultusMissing: rails name networks, but the kind "+
			"NetworkAttachmentDefinition does not exist: install Multus")
		expectPlanned(ctx, fabricCluster, v1alpha1.ConditionDevicesAvailable, "False DeviceMissing: 2 of 2 machines lack something: machine "+
			nodes.writer+" offers 0 "+fabricResource+" of 1")

		Expect(below.fabric(ctx, "up")).To(Succeed())
		changeSpecOf(ctx, fabricCluster, func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Rails[0].Network.Name, spec.Provision.Networks = "nowhere", nil
		})
		expectPlanned(ctx, fabricCluster, v1alpha1.ConditionNetworksResolved, "False NetworkMissing: NetworkAttachmentDefinition "+namespace+
			"/nowhere does not exist: create it, or correct rails[].network.name")
	}, SpecTimeout(4*time.Minute))

	It("gets the network and the devices from one object", func(ctx context.Context) {
		changeSpecOf(ctx, fabricCluster, func(spec *v1alpha1.PeerCacheClusterSpec) { *spec = overFabric(v1alpha1.ModeApply).Spec })
		expectOnFabric(ctx, machines())
	}, SpecTimeout(4*time.Minute))

	It("carries its pages there, and not over the pod network", func(ctx context.Context) {
		from, to = startEngineOf(ctx, fabricCluster, "fabric-writer", nodes.writer), startEngineOf(ctx, fabricCluster, "fabric-reader", nodes.reader)
		from.waitReady(ctx)
		to.waitReady(ctx)
		expectPagesOverFabric(ctx, from, to)
	}, SpecTimeout(4*time.Minute))

	It("needs no device for that", full, func(ctx context.Context) {
		asking := func(g Gomega) (count int) {
			for _, machine := range machines() {
				pod, err := podOf(ctx, fabricCluster, machine)
				g.Expect(err).NotTo(HaveOccurred())
				if _, asks := pod.Spec.Containers[0].Resources.Limits[fabricResource]; asks {
					count++
				}
			}
			return count
		}
		Expect(asking(NewGomega(Fail))).To(Equal(2), "nodes that ask for %s, so far", fabricResource)
		changeSpecOf(ctx, fabricCluster, func(spec *v1alpha1.PeerCacheClusterSpec) {
			rail := &spec.Rails[0]
			rail.Attachment, rail.SharedDevicePlugin, spec.Provision.DevicePlugin = v1alpha1.AttachmentNetwork, nil, nil
		})
		Eventually(func(g Gomega) {
			g.Expect(asking(g)).To(BeZero(), "nodes that ask for %s", fabricResource)
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
		expectOnFabric(ctx, machines())
		expectPagesOverFabric(ctx, from, to)
	}, SpecTimeout(4*time.Minute))

	Context("with rails on two NUMA nodes", full, numaSpecs) // here because they need Multus, too
}

// expectOnFabric waits until the nodes serve and reach each other at the interface that Multus gave them.
func expectOnFabric(ctx context.Context, machines []string) {
	Eventually(func(g Gomega) {
		cluster := clusterNamed(ctx, fabricCluster)
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionNetworksResolved)).To(Equal("True Resolved: 1 network exists"))
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionDevicesAvailable)).To(HavePrefix("True Available: 2 machines offer"))
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(Equal("True AllMembersReady: 2/2 members serve"))
		for _, machine := range machines {
			pod, err := podOf(ctx, fabricCluster, machine)
			g.Expect(err).NotTo(HaveOccurred())
			status, err := wholeStatus(ctx, pod)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.healthyMembers()).To(Equal(2), "members that %s sees: %v", machine, status.Members)
			for _, member := range status.Members {
				address, err := netip.ParseAddrPort(member.Address)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(netip.MustParsePrefix(fabricRange).Contains(address.Addr())).To(BeTrue(), "%s is reached at %s",
					member.ID, member.Address)
			}
		}
	}).WithContext(ctx).WithTimeout(3 * time.Minute).Should(Succeed())
}

// expectPagesOverFabric has pages written at one machine and read at another, and looks over which network they went.
func expectPagesOverFabric(ctx context.Context, from, to engine) {
	reading, err := podOf(ctx, fabricCluster, nodes.reader)
	Expect(err).NotTo(HaveOccurred())
	writing, err := podOf(ctx, fabricCluster, nodes.writer)
	Expect(err).NotTo(HaveOccurred())

	body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: fabricPages, Seed: freshSeed()}
	wrote := writeAllOn(ctx, from, body)
	const remote = `peercache_read_bytes_total{tier="remote"}`
	pages := -metricsOf(ctx, reading)[remote]
	port, there, here := machineBytes(ctx, nodes.reader), podBytes(ctx, writing), podBytes(ctx, reading)
	expectRead(ctx, to, body, wrote)
	afterHere, afterThere, afterPort := podBytes(ctx, reading), podBytes(ctx, writing), machineBytes(ctx, nodes.reader)
	pages += metricsOf(ctx, reading)[remote]

	Expect(pages).To(BeNumerically(">", 1<<20), "bytes of pages read from the other machine")
	onPort := afterPort[fabricPort].received - port[fabricPort].received
	onFabric := afterHere[fabricInterface].received - here[fabricInterface].received
	sent := afterThere[fabricInterface].sent - there[fabricInterface].sent
	onPods := afterHere["eth0"].both() - here["eth0"].both() + afterThere["eth0"].both() - there["eth0"].both()
	AddReportEntry("bytes", strconv.FormatFloat(pages, 'f', 0, 64)+" of pages; received from the fabric "+
		strconv.FormatFloat(onFabric, 'f', 0, 64)+", over the pod network of both "+strconv.FormatFloat(onPods, 'f', 0, 64))
	Expect(onFabric).To(BeNumerically(">=", pages), "received by the reader's pod at %s", fabricInterface)
	Expect(sent).To(BeNumerically(">=", pages), "sent by the writer's pod at %s", fabricInterface)
	Expect(onPort).To(BeNumerically(">=", pages), "received by the reader's machine at %s", fabricPort)
	// Heartbeats, probes and the suite's own questions stay on the pod network.
	Expect(onPods).To(BeNumerically("<", pages/4), "over the pod network of both")
}

// overFabric is what a user writes, and less of everything: a machine of a test has room for little beside the first
// cluster.
func overFabric(mode v1alpha1.Mode) *v1alpha1.PeerCacheCluster {
	return &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fabricCluster},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Mode:      mode,
			Transport: v1alpha1.TransportTCP,
			Nodes:     v1alpha1.NodesSpec{Selector: map[string]string{fabricLabel: "true"}},
			Memory:    v1alpha1.MemorySpec{Pool: resource.MustParse("128Mi")},
			Discovery: v1alpha1.DiscoverySpec{Interface: fabricInterface},
			Rails: []v1alpha1.Rail{{
				Name: "rail0", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: v1alpha1.ExtendedResource(fabricResource)},
				Network: &v1alpha1.RailNetwork{Name: "rail0", Interface: fabricInterface},
			}},
			Provision: v1alpha1.ProvisionSpec{
				DevicePlugin: &v1alpha1.DevicePluginSpec{
					Image: "docker.io/peercache/test-rdma-plugin:cluster",
					Resources: []v1alpha1.SharedResource{{
						Rail: "rail0", Selectors: v1alpha1.PortSelectors{Interfaces: []string{fabricPort}},
					}},
				},
				Networks: []v1alpha1.ProvisionedNetwork{{
					Rail: "rail0", Type: v1alpha1.NetworkMacvlan, Interface: fabricPort, MTU: 9000,
					IPAM: v1alpha1.IPAMSpec{Type: v1alpha1.IPAMWhereabouts, Range: fabricRange},
				}},
			},
			PodTemplate: smallMembers(),
		},
	}
}

// traffic of an interface, in bytes.
type traffic struct{ received, sent float64 }

func (t traffic) both() float64 { return t.received + t.sent }

func podBytes(ctx context.Context, pod *corev1.Pod) map[string]traffic {
	text, err := kube.exec(ctx, pod.Namespace, pod.Name, "", "cat", "/proc/net/dev")
	Expect(err).NotTo(HaveOccurred())
	return interfaceBytes(text)
}

func machineBytes(ctx context.Context, machine string) map[string]traffic {
	text, err := below.exec(ctx, machine, "cat", "/proc/net/dev")
	Expect(err).NotTo(HaveOccurred())
	return interfaceBytes(text)
}

// interfaceBytes reads /proc/net/dev: behind the name eight numbers on what was received and eight on what was sent,
// bytes first.
func interfaceBytes(text string) map[string]traffic {
	all := map[string]traffic{}
	for line := range strings.Lines(text) {
		name, numbers, found := strings.Cut(line, ":")
		fields := strings.Fields(numbers)
		if !found || len(fields) < 16 {
			continue
		}
		received, err := strconv.ParseFloat(fields[0], 64)
		Expect(err).NotTo(HaveOccurred(), line)
		sent, err := strconv.ParseFloat(fields[8], 64)
		Expect(err).NotTo(HaveOccurred(), line)
		all[strings.TrimSpace(name)] = traffic{received, sent}
	}
	return all
}
