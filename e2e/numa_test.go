// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

const (
	numaCluster = "numa"
	numaLabel   = "e2e.peercache.io/numa" // of the machine that takes part
	numaPlugin  = "numa-device-plugin"
	numaFolder  = "/sys/devices/system/node"
	numaDevices = "/var/lib/kubelet/device-plugins"
)

// numaSpecs bring up a cluster on one machine whose kubelet sees two NUMA nodes and takes all devices of a pod from one of
// them (topologyManagerPolicy: single-numa-node, scope pod). Each NUMA node has a rail; a device plug-in tells the
// kubelet so, as that of SR-IOV does. Kubelet aligns devices here and not cores: its static CPU manager would keep one of
// two for the system. Nodes keep themselves on the CPUs of their NUMA node, which they see because the pod mounts what the
// kubelet is shown. The kernel has the memory that it has: where that is one NUMA node, memory of the other cannot be
// bound, and the node finds its pool elsewhere (hack/lab/soft-rdma/qemu has two).
func numaSpecs() {
	machine := func() string { return nodes.reader }

	BeforeAll(func(ctx context.Context) {
		if !withMultus(ctx) { // the specs before have not run
			Expect(below.fabric(ctx, "up")).To(Succeed())
		}
		labelMachine(ctx, machine(), numaLabel, "true")
		for _, object := range twoRails(machine()) {
			Expect(kube.Create(ctx, object)).To(Succeed())
		}
		Eventually(func(g Gomega) {
			node := &corev1.Node{}
			g.Expect(kube.Get(ctx, client.ObjectKey{Name: machine()}, node)).To(Succeed())
			for _, rail := range overTwoRails(v1alpha1.LayoutPerNUMA).Spec.Rails {
				g.Expect(node.Status.Allocatable.Name(corev1.ResourceName(rail.ResourceName()), resource.DecimalSI).Value()).
					To(BeEquivalentTo(4), "%s of %s", rail.ResourceName(), machine())
			}
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
	}, NodeTimeout(4*time.Minute))

	AfterAll(func(ctx context.Context) {
		deleteAndWait(ctx, overTwoRails(v1alpha1.LayoutPerNUMA), time.Minute)
		Eventually(func() []string { return podsFor(ctx, numaCluster) }).WithContext(ctx).WithTimeout(90 * time.Second).Should(BeEmpty())
		for _, object := range twoRails(machine()) {
			deleteAndWait(ctx, object, time.Minute)
		}
		labelMachine(ctx, machine(), numaLabel, nil)
	}, NodeTimeout(4*time.Minute))

	It("is told by the kubelet, and tells what to write, when one node is to have the rails of both", func(ctx context.Context) {
		Expect(kube.Create(ctx, overTwoRails(v1alpha1.LayoutPerNode))).To(Succeed())
		refused := func(g Gomega) {
			pod, err := podOf(ctx, numaCluster, machine())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodFailed))
			g.Expect(pod.Status.Reason).To(Equal("TopologyAffinityError"))
			cluster := clusterNamed(ctx, numaCluster)
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionDegraded)).To(And(
				HavePrefix("True NUMAMisaligned: pod "), ContainSubstring("the topology manager of "+machine()),
				ContainSubstring("rail0 and rail1"), ContainSubstring("layout: PerNUMA"),
				ContainSubstring("rails[].group"), ContainSubstring("best-effort")))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(HavePrefix("False MembersBroken: 0/1 members are ready; "))
		}
		Eventually(refused).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		AddReportEntry("Degraded", conditionMessage(clusterNamed(ctx, numaCluster), v1alpha1.ConditionDegraded))
		Expect(devicesGiven(ctx, machine())).To(BeEmpty(), "devices of a pod that was refused")

		By("without a heap of pods that failed, or a word that it is well when the next is tried")
		tried := map[string]bool{}
		Eventually(func(g Gomega) {
			names := podsFor(ctx, numaCluster)
			Expect(len(names)).To(BeNumerically("<=", 1), "pods: %v", names)
			for _, name := range names {
				tried[name] = true
			}
			g.Expect(len(tried)).To(BeNumerically(">=", 3))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		Eventually(refused).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
		_, well := said(ctx, "NoFaults")
		ill, _ := said(ctx, "NUMAMisaligned")
		Expect(well).To(BeTemporally("<", ill), "when it was last said that no member is broken")
	}, SpecTimeout(longest))

	It("has a node on each NUMA node, with its rail, once the rails are in groups", func(ctx context.Context) {
		changeSpecOf(ctx, numaCluster, func(spec *v1alpha1.PeerCacheClusterSpec) {
			for numa := range spec.Rails {
				spec.Rails[numa].Group = fmt.Sprintf("numa%d", numa)
			}
		})
		expectOneForEach(ctx, machine())
	}, SpecTimeout(longest))

	It("has them on the CPUs of the NUMA nodes, too, when the rails name these", func(ctx context.Context) {
		deleteAndWait(ctx, clusterNamed(ctx, numaCluster), time.Minute)
		Expect(kube.Create(ctx, overTwoRails(v1alpha1.LayoutPerNUMA))).To(Succeed())
		expectOneForEach(ctx, machine())
		Eventually(func() string {
			return conditionMessage(clusterNamed(ctx, numaCluster), v1alpha1.ConditionNUMAAligned)
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Or(
			HavePrefix("True Aligned: threads and memory of 2 members"), // where the kernel has two, too
			And(HavePrefix("False Misplaced: 1 of 2 members are far from their rails: "), ContainSubstring(".numa1: memory elsewhere. "))))
		AddReportEntry("NUMAAligned", conditionMessage(clusterNamed(ctx, numaCluster), v1alpha1.ConditionNUMAAligned))
		for numa, pod := range podsByNUMANode(ctx, NewGomega(Fail)) {
			status, err := statusOf(ctx, pod)
			Expect(err).NotTo(HaveOccurred())
			cpus, err := below.exec(ctx, machine(), "cat", fmt.Sprintf("%s/node%d/cpulist", numaFolder, numa))
			Expect(err).NotTo(HaveOccurred())
			Expect(status.NUMA.Node).To(Equal(numa))
			Expect(status.NUMA.Memory.ToldBy).To(Equal("numa_maps"), "the runtime's seccomp profile refuses move_pages")
			Expect(status.NUMA.Threads.CPUs).To(Equal(strings.TrimSpace(cpus)), "CPUs of %s: %s", pod.Name, status.NUMA.Threads.Why)
			// Their pools are files, which they hand out through a mount that is read-only.
			Eventually(func() (string, error) {
				return kube.logs(ctx, namespace, pod.Name, plan.ContainerName, false)
			}).WithContext(ctx).WithTimeout(time.Minute).Should(MatchRegexp(`the pool of .*\.numa%d, on this machine, is mapped`, 1-numa))
		}
	}, SpecTimeout(4*time.Minute))
}

func withMultus(ctx context.Context) bool {
	networks := &unstructured.UnstructuredList{}
	networks.SetGroupVersionKind(plan.NetworkKind)
	return kube.List(ctx, networks, client.InNamespace(namespace)) == nil
}

// expectOneForEach waits for a node on each NUMA node, to which the kubelet has given the rail there and nothing else.
func expectOneForEach(ctx context.Context, machine string) {
	Eventually(func(g Gomega) {
		cluster := clusterNamed(ctx, numaCluster)
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(Equal("True AllMembersReady: 2/2 members serve"))
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionDegraded)).To(Equal("False NoFaults: no member is broken"))
		var given []string
		for numa, pod := range podsByNUMANode(ctx, g) {
			given = append(given, fmt.Sprintf("nvidia.com/rail%d for pod %s from NUMA node %d", numa, pod.Name, numa))
		}
		g.Expect(devicesGiven(ctx, machine)).To(ConsistOf(given))
	}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
}

// said is when the operator first and last recorded an event of the cluster.
func said(ctx context.Context, reason string) (first, last time.Time) {
	var events corev1.EventList
	Expect(kube.List(ctx, &events, client.InNamespace(namespace))).To(Succeed())
	for _, event := range events.Items {
		if event.InvolvedObject.Name != numaCluster || event.Reason != reason {
			continue
		}
		if first.IsZero() || event.EventTime.Time.Before(first) {
			first = event.EventTime.Time
		}
		last = slices.MaxFunc([]time.Time{last, event.EventTime.Time}, time.Time.Compare)
		if event.Series != nil {
			last = slices.MaxFunc([]time.Time{last, event.Series.LastObservedTime.Time}, time.Time.Compare)
		}
	}
	Expect(first).NotTo(BeZero(), "no event %s", reason)
	return first, last
}

// podsByNUMANode are the cluster's nodes by the number of their NUMA node.
func podsByNUMANode(ctx context.Context, g Gomega) []*corev1.Pod {
	pods := make([]*corev1.Pod, 2)
	for numa := range pods {
		var list corev1.PodList
		g.Expect(kube.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{
			v1alpha1.LabelCluster: numaCluster, v1alpha1.LabelGroup: fmt.Sprintf("numa%d", numa)})).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
		pods[numa] = &list.Items[0]
	}
	return pods
}

// devicesGiven is what the kubelet has written down of devices that it gave to the cluster's pods. Those of pods that are
// gone stay written until it needs them.
func devicesGiven(ctx context.Context, machine string) (given []string) {
	var pods corev1.PodList
	Expect(kube.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelCluster: numaCluster})).To(Succeed())
	names := map[string]string{}
	for _, pod := range pods.Items {
		names[string(pod.UID)] = pod.Name
	}
	text, err := below.exec(ctx, machine, "cat", numaDevices+"/kubelet_internal_checkpoint")
	Expect(err).NotTo(HaveOccurred())
	var checkpoint struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID, ResourceName string
				DeviceIDs            map[string][]string // by NUMA node
			}
		}
	}
	Expect(json.Unmarshal([]byte(text), &checkpoint)).To(Succeed(), text)
	for _, entry := range checkpoint.Data.PodDeviceEntries {
		name, there := names[entry.PodUID]
		for numa, ids := range entry.DeviceIDs {
			if there {
				given = append(given, slices.Repeat([]string{fmt.Sprintf("%s for pod %s from NUMA node %s", entry.ResourceName, name, numa)}, len(ids))...)
			}
		}
	}
	return given
}

// twoRails are what a machine has: a network for each rail, and a device plug-in that offers four functions of each.
func twoRails(machine string) []client.Object {
	var resources []map[string]any
	var objects []client.Object
	for numa, rail := range overTwoRails(v1alpha1.LayoutPerNUMA).Spec.Rails {
		_, name, _ := strings.Cut(rail.ResourceName(), "/")
		resources = append(resources, map[string]any{
			"resourceName": name, "resourcePrefix": "nvidia.com", "rdmaHcaMax": 4, "numaNode": numa,
			"selectors": map[string]any{"ifNames": []string{fabricPort}},
		})
		network := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": fmt.Sprintf(
			`{"cniVersion": "0.3.1", "type": "macvlan", "master": "%s", "ipam": {"type": "host-local", "subnet": "192.168.%d.0/24"}}`,
			fabricPort, 80+numa)}}}
		network.SetGroupVersionKind(plan.NetworkKind)
		network.SetNamespace(namespace)
		network.SetName(rail.Network.Name)
		network.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/resourceName": rail.ResourceName()})
		objects = append(objects, network)
	}
	config, err := json.Marshal(map[string]any{"configList": resources})
	Expect(err).NotTo(HaveOccurred())
	meta := metav1.ObjectMeta{Namespace: namespace, Name: numaPlugin}
	return append(objects, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"config.json": string(config)}},
		&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			NodeName: machine, HostNetwork: true, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{
				Name: "plugin", Image: "docker.io/peercache/test-rdma-plugin:cluster",
				VolumeMounts: []corev1.VolumeMount{
					{Name: "config", MountPath: "/k8s-rdma-shared-dev-plugin"}, {Name: "sockets", MountPath: numaDevices}},
			}},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: numaPlugin}}}},
				{Name: "sockets", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: numaDevices}}},
			},
		}})
}

// overTwoRails is a cluster whose nodes may bind memory and see the NUMA nodes that the kubelet sees.
func overTwoRails(layout v1alpha1.Layout) *v1alpha1.PeerCacheCluster {
	template := `{
		"containers": [{
			"name": "peercached",
			"resources": {"requests": {"cpu": "100m"}},
			"securityContext": {"capabilities": {"add": ["SYS_NICE"]}},
			"volumeMounts": [{"name": "numa", "mountPath": "` + numaFolder + `", "readOnly": true}]
		}],
		"volumes": [{"name": "numa", "hostPath": {"path": "` + numaFolder + `"}}]
	}`
	var rails []v1alpha1.Rail
	for numa := range int32(2) {
		name := fmt.Sprintf("rail%d", numa)
		rail := v1alpha1.Rail{Name: name, Attachment: v1alpha1.AttachmentSRIOV, SRIOV: &v1alpha1.VirtualFunction{ResourceName: v1alpha1.ExtendedResource("nvidia.com/" + name)}, Network: &v1alpha1.RailNetwork{Name: "numa-" + name}}
		if layout == v1alpha1.LayoutPerNUMA {
			rail.NUMANode = new(numa)
		}
		rails = append(rails, rail)
	}
	return &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: numaCluster},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Transport:   v1alpha1.TransportTCP,
			Layout:      layout,
			Nodes:       v1alpha1.NodesSpec{Selector: map[string]string{numaLabel: "true"}},
			Memory:      v1alpha1.MemorySpec{Pool: resource.MustParse("128Mi")},
			Rails:       rails,
			PodTemplate: &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(template)}},
		},
	}
}
