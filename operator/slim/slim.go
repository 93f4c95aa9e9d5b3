// SPDX-License-Identifier: Apache-2.0

// Package slim reduces the objects in the operator's cache to the fields that a pass reads. With thousands of machines
// and pods the other fields would be most of the operator's memory (docs/dev/scale.md).
package slim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/operator/plan"
)

// Machine keeps what preflight reads of a Kubernetes node. Most of the rest is the list of images.
func Machine(object any) (any, error) {
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

// CSINode keeps whether the machine has PeerCache's CSI driver.
func CSINode(object any) (any, error) {
	machine, ok := object.(*storagev1.CSINode)
	if !ok {
		return object, nil
	}
	return &storagev1.CSINode{
		TypeMeta:   machine.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: machine.Name, UID: machine.UID, ResourceVersion: machine.ResourceVersion},
		Spec: storagev1.CSINodeSpec{Drivers: slices.DeleteFunc(slices.Clone(machine.Spec.Drivers), func(d storagev1.CSINodeDriver) bool {
			return d.Name != plan.CSIDriver
		})},
	}, nil
}

// Pod keeps the owner and the health of a node's pod. Most of the rest is the spec, which the DaemonSet has, too. So a
// pod from the cache may be patched, but never updated.
func Pod(object any) (any, error) {
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
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, InitContainers: images(pod.Spec.InitContainers), Containers: images(pod.Spec.Containers),
		},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message, PodIP: pod.Status.PodIP,
			InitContainerStatuses: containers(pod.Status.InitContainerStatuses),
			ContainerStatuses:     containers(pod.Status.ContainerStatuses),
		},
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		slim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.PodReadyToStartContainers} {
		if found := Condition(pod, kind); found != nil {
			slim.Status.Conditions = append(slim.Status.Conditions, *found)
		}
	}
	return slim, nil
}

// images keeps what an update in place compares.
func images(all []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, len(all))
	for i, container := range all {
		kept[i] = corev1.Container{Name: container.Name, Image: container.Image}
	}
	return kept
}

// containers keeps the containers that wait or have restarted; no step reads the others.
func containers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, container := range all {
		status := corev1.ContainerStatus{Name: container.Name, RestartCount: container.RestartCount}
		if container.State.Waiting != nil {
			status.Image, status.State, status.LastTerminationState = container.Image, container.State, container.LastTerminationState
		}
		if container.State.Waiting != nil || container.RestartCount > 0 {
			kept = append(kept, status)
		}
	}
	return kept
}

// Ready says whether a pod's condition Ready is True.
func Ready(pod *corev1.Pod) bool {
	ready := Condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// Condition is a pod's condition of a type; nil when the pod has none.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
