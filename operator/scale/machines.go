// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxMachines is the number of machines for which address has addresses.
	maxMachines = 10000
	// featureLabels is the number of labels that node feature discovery and a GPU operator set together.
	featureLabels = 60
	zones         = 3
	// images is the number of images that a kubelet reports.
	images = 50
	// reportInterval is how often a kubelet writes an unchanged Node.
	reportInterval = 5 * time.Minute

	selectorLabel = "peercache.io/node"
)

func machineName(i int) string { return fmt.Sprintf("machine-%04d", i) }

// newMachine returns a GPU server as its kubelet and the usual daemons describe it.
func newMachine(i int, c config) *corev1.Node {
	name := machineName(i)
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones), selectorLabel: "true",
	}}}
	for n := range featureLabels {
		machine.Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.FEATURE%02d", n)] = "true"
	}
	machine.Spec = corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), ProviderID: "metal://" + name}
	quantities := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("192"), corev1.ResourceMemory: resource.MustParse("2Ti"),
		corev1.ResourcePods: resource.MustParse("250"), "hugepages-1Gi": resource.MustParse("512Gi"),
		"nvidia.com/gpu": resource.MustParse("8"), corev1.ResourceEphemeralStorage: resource.MustParse("7Ti"),
	}
	for rail := range c.groups * c.rails {
		quantities[corev1.ResourceName(railResource(rail))] = resource.MustParse("64")
	}
	machine.Status = corev1.NodeStatus{
		Capacity: quantities, Allocatable: quantities, Conditions: conditionsOfMachine(),
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address(i, 0)}, {Type: corev1.NodeHostName, Address: name}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: name, SystemUUID: name, BootID: name, KernelVersion: "6.8.0-60-generic", OSImage: "Ubuntu 24.04.2 LTS",
			ContainerRuntimeVersion: "containerd://2.0.5", KubeletVersion: "v1.36.0", OperatingSystem: "linux", Architecture: "amd64",
		},
	}
	for n := range images {
		repository := fmt.Sprintf("registry.example.com/team/service-%02d", n)
		machine.Status.Images = append(machine.Status.Images, corev1.ContainerImage{
			Names:     []string{repository + "@sha256:" + strings.Repeat("0123456789abcdef", 4), repository + ":v1.2.3"},
			SizeBytes: int64(n+1) << 26,
		})
	}
	return machine
}

func conditionsOfMachine() []corev1.NodeCondition {
	kinds := []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady}
	conditions := make([]corev1.NodeCondition, 0, len(kinds))
	for _, kind := range kinds {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		conditions = append(conditions, corev1.NodeCondition{
			Type: kind, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			Reason: "Kubelet" + string(kind), Message: "kubelet says so",
		})
	}
	return conditions
}

// createMachines creates all machines.
func createMachines(ctx context.Context, to client.Client, c config, done *atomic.Int64) error {
	return inParallel(ctx, c.nodes, func(ctx context.Context, i int) error {
		defer done.Add(1)
		machine := newMachine(i, c)
		if err := to.Create(ctx, machine); err != nil {
			return fmt.Errorf("creating %s: %w", machine.Name, err)
		}
		before := machine.DeepCopy()
		machine.Spec.Taints = nil // the API server adds the taint not-ready, which a controller would remove
		if err := to.Patch(ctx, machine, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("removing the taint of %s: %w", machine.Name, err)
		}
		return nil
	})
}

// heartbeat writes what kubelets write while nothing happens. It updates times in Nodes, at the rate of that many kubelets and at
// least once a second. It also updates the time of a probe in the status of some pods, which triggers a reconcile.
func heartbeat(ctx context.Context, to client.Client, c config, pods []string, beats *atomic.Int64) error {
	every := min(time.Second, reportInterval/time.Duration(c.nodes))
	lastPod := time.Now()
	for i, end := 0, time.Now().Add(c.idle); time.Now().Before(end); i++ {
		if err := pause(ctx, every); err != nil {
			return err
		}
		machine := &corev1.Node{}
		if err := to.Get(ctx, client.ObjectKey{Name: machineName(i % c.nodes)}, machine); err != nil {
			return fmt.Errorf("reading %s: %w", machineName(i%c.nodes), err)
		}
		before := machine.DeepCopy()
		for n := range machine.Status.Conditions {
			machine.Status.Conditions[n].LastHeartbeatTime = metav1.Now()
		}
		if err := to.Status().Patch(ctx, machine, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the heartbeat of %s: %w", machine.Name, err)
		}
		beats.Add(1)
		if time.Since(lastPod) < time.Second {
			continue
		}
		lastPod = time.Now()
		if err := probed(ctx, to, pods[i%len(pods)]); err != nil {
			return fmt.Errorf("writing the status of pod %s: %w", pods[i%len(pods)], err)
		}
	}
	return nil
}

func probed(ctx context.Context, to client.Client, name string) error {
	pod := &corev1.Pod{}
	if err := to.Get(ctx, client.ObjectKey{Namespace: servingNamespace, Name: name}, pod); err != nil {
		return err
	}
	before := pod.DeepCopy()
	ready := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	pod.Status.Conditions[ready].LastProbeTime = metav1.Now()
	return to.Status().Patch(ctx, pod, client.MergeFrom(before))
}
