// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The cache holds of machines and nodes' pods what the steps of a pass look at, and no more: with thousands of them the
// rest would be most of the operator's memory (docs/scale.md).

// slimMachine keeps of a Kubernetes node what preflight looks at. Most of the rest is the list of images.
func slimMachine(object any) (any, error) {
	machine, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	return &corev1.Node{
		TypeMeta: machine.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: machine.Name, UID: machine.UID, ResourceVersion: machine.ResourceVersion, Labels: machine.Labels,
		},
		Spec: corev1.NodeSpec{Taints: machine.Spec.Taints},
		Status: corev1.NodeStatus{
			Allocatable: machine.Status.Allocatable,
			NodeInfo:    corev1.NodeSystemInfo{KernelVersion: machine.Status.NodeInfo.KernelVersion},
		},
	}, nil
}

// slimPod keeps of a node's pod whose it is, and how it is. Most of the rest is the spec, which is that of its
// DaemonSet. A pod from the cache must therefore only ever be patched, never updated.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message, PodIP: pod.Status.PodIP,
			InitContainerStatuses: slimContainers(pod.Status.InitContainerStatuses),
			ContainerStatuses:     slimContainers(pod.Status.ContainerStatuses),
		},
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		slim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled} {
		if found := condition(pod, kind); found != nil {
			slim.Status.Conditions = append(slim.Status.Conditions, *found)
		}
	}
	return slim, nil
}

// slimContainers keeps containers that wait; of others nobody asks.
func slimContainers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var waiting []corev1.ContainerStatus
	for _, container := range all {
		if container.State.Waiting != nil {
			waiting = append(waiting, corev1.ContainerStatus{
				Name: container.Name, Image: container.Image, State: container.State, LastTerminationState: container.LastTerminationState,
			})
		}
	}
	return waiting
}
