// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// countInterval is how often the DaemonSet controller writes its counts. Kubernetes' controllers are limited to 20 requests a
// second in all, so they are not faster.
const countInterval = 100 * time.Millisecond

// daemons simulates the DaemonSet controller and the kubelets: for each machine a pod of each DaemonSet, which runs and then is
// ready, and the counts of the DaemonSets.
type daemons struct {
	client  client.Client
	config  config
	members *members

	created, ready atomic.Int64
	names          []string // of all pods
}

// address is the address of a group's pod on a machine. All of 127.0.0.0/8 belongs to this machine.
func address(machine, group int) string {
	return fmt.Sprintf("127.%d.%d.%d", 1+group, machine/200, 1+machine%200)
}

// bringUp returns when all pods are ready and counted.
func (d *daemons) bringUp(ctx context.Context) error {
	var sets []appsv1.DaemonSet
	for len(sets) < d.config.groups { // until the operator has created them
		var list appsv1.DaemonSetList
		if err := d.client.List(ctx, &list, client.InNamespace(servingNamespace),
			client.MatchingLabels{v1alpha1.LabelCluster: clusterName}); err != nil {
			return fmt.Errorf("listing DaemonSets: %w", err)
		}
		sets = list.Items
		if err := pause(ctx, countInterval); err != nil {
			return err
		}
	}
	slices.SortFunc(sets, func(a, b appsv1.DaemonSet) int { return strings.Compare(a.Name, b.Name) })
	counts := make([]atomic.Int64, len(sets))
	for i := range sets {
		if err := d.count(ctx, &sets[i], 0); err != nil {
			return err
		}
	}
	done := make(chan struct{})
	var wait sync.WaitGroup
	failures := make([]error, len(sets))
	for i := range sets {
		wait.Go(func() { failures[i] = d.keepCounting(ctx, done, &sets[i], &counts[i]) })
	}
	d.names = make([]string, d.config.nodes*len(sets))
	err := inParallel(ctx, len(d.names), func(ctx context.Context, n int) error {
		set, machine := n%len(sets), n/len(sets)
		pod := newNode(&sets[set], machine)
		d.names[n] = pod.Name
		if err := d.start(ctx, pod, address(machine, set), set); err != nil {
			return err
		}
		counts[set].Add(1)
		return nil
	})
	close(done)
	wait.Wait()
	for i := range sets {
		if err == nil {
			err = failures[i]
		}
		if err == nil {
			err = d.count(ctx, &sets[i], counts[i].Load())
		}
	}
	return err
}

// keepCounting writes the counts of a DaemonSet while they change.
func (d *daemons) keepCounting(ctx context.Context, done <-chan struct{}, set *appsv1.DaemonSet, ready *atomic.Int64) error {
	written := int64(0)
	for {
		select {
		case <-done:
			return nil
		case <-time.After(countInterval):
		}
		now := ready.Load()
		if now == written {
			continue
		}
		if err := d.count(ctx, set, now); err != nil {
			return err
		}
		written = now
	}
}

func (d *daemons) count(ctx context.Context, set *appsv1.DaemonSet, ready int64) error {
	current := &appsv1.DaemonSet{}
	if err := d.client.Get(ctx, client.ObjectKeyFromObject(set), current); err != nil {
		return fmt.Errorf("reading DaemonSet %s: %w", set.Name, err)
	}
	before, all, have := current.DeepCopy(), int32(d.config.nodes), int32(ready) //nolint:gosec // see validate
	current.Status = appsv1.DaemonSetStatus{
		ObservedGeneration: current.Generation, DesiredNumberScheduled: all, CurrentNumberScheduled: all,
		UpdatedNumberScheduled: all, NumberReady: have, NumberAvailable: have, NumberUnavailable: all - have,
	}
	if err := d.client.Status().Patch(ctx, current, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("counting pods of DaemonSet %s: %w", set.Name, err)
	}
	return nil
}

// start writes what a kubelet writes, in the same order.
func (d *daemons) start(ctx context.Context, pod *corev1.Pod, ip string, group int) error {
	if err := d.client.Create(ctx, pod); err != nil {
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	d.created.Add(1)
	if err := d.members.listen(ctx, ip); err != nil {
		return err
	}
	for _, ready := range []bool{false, true} {
		before := pod.DeepCopy()
		pod.Status = statusOf(pod, ip, ready)
		if err := d.client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the status of pod %s: %w", pod.Name, err)
		}
	}
	d.members.join(pod.Spec.NodeName, group, ip)
	d.ready.Add(1)
	return nil
}

// newNode returns a pod as the DaemonSet controller, the scheduler and Multus make it.
func newNode(set *appsv1.DaemonSet, machine int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: fmt.Sprintf("%s-%05d", set.Name, machine),
			Labels: maps.Clone(set.Spec.Template.Labels), Annotations: maps.Clone(set.Spec.Template.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Labels["controller-revision-hash"] = "5d8f9c7b6"
	pod.Labels["pod-template-generation"] = "1"
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["k8s.v1.cni.cncf.io/network-status"] = networkStatus(pod.Annotations["k8s.v1.cni.cncf.io/networks"])
	pod.Spec.NodeName = machineName(machine)
	for _, key := range []string{"not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: "node.kubernetes.io/" + key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return pod
}

// networkStatus resembles the annotation of Multus for the networks of a pod, which are separated by commas.
func networkStatus(networks string) string {
	const one = `{"name":"serving/rail0","interface":"net1","ips":["192.168.100.100"],"mac":"02:00:c0:a8:64:64","dns":{},` +
		`"device-info":{"type":"rdma","version":"1.1.0","rdma":{"rdma-device":"mlx5_0"}}}`
	return "[" + strings.Repeat(one+",", strings.Count(networks, "},")+strings.Count(networks, "/")) + one + "]"
}

func statusOf(pod *corev1.Pod, ip string, ready bool) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: ip, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: new(metav1.Now()),
		QOSClass: pod.Status.QOSClass,
	}
	for _, kind := range []corev1.PodConditionType{
		"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		is := corev1.ConditionTrue
		if !ready && (kind == corev1.PodReady || kind == corev1.ContainersReady) {
			is = corev1.ConditionFalse
		}
		status.Conditions = append(status.Conditions,
			corev1.PodCondition{Type: kind, Status: is, LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation})
	}
	describe := func(container corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, State: state, Ready: ready, Started: new(ready),
			ImageID:     container.Image + "@sha256:" + strings.Repeat("0123456789abcdef", 4),
			ContainerID: "containerd://" + strings.Repeat("fedcba9876543210", 4), Resources: &container.Resources,
		}
	}
	for _, container := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, describe(container,
			corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}}))
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, describe(container,
			corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}))
	}
	return status
}

func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}
