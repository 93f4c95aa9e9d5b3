// SPDX-License-Identifier: Apache-2.0

// Package podtest builds pods of nodes for tests.
package podtest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/slim"
)

// Noon is the present time of the tests.
var Noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

// Pod is a pod that has been ready for an hour, changed by the given functions.
func Pod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "inference", Name: name,
			CreationTimestamp: metav1.NewTime(Noon.Add(-time.Hour)),
			Labels:            map[string]string{v1alpha1.LabelCluster: "demo"},
		},
		Spec: corev1.PodSpec{NodeName: "machine-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Noon.Add(-time.Hour)),
			}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: plan.ContainerName, Image: "dataplane:1"}},
		},
	}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

// Hosting makes a pod a discovery host.
func Hosting(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelDiscovery] = v1alpha1.DiscoveryHost }

// Terminating marks a pod as being deleted.
func Terminating(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(Noon)) }

// Aged sets the age of a pod.
func Aged(age time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(Noon.Add(-age)) }
}

// UnreadyFor makes a pod not ready, for the given time.
func UnreadyFor(since time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(Noon.Add(-since))
	}
}

// Pending makes a pod one that no kubelet has started.
func Pending(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodPending
	pod.Status.PodIP = ""
	pod.Status.Conditions = nil
}

// Waiting makes a pod's container wait for a reason.
func Waiting(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

// Cached is what the operator's cache keeps of pods.
func Cached(t *testing.T, pods ...corev1.Pod) []corev1.Pod {
	t.Helper()
	list := make([]corev1.Pod, len(pods))
	for i := range pods {
		object, err := slim.Pod(&pods[i])
		pod, ok := object.(*corev1.Pod)
		if err != nil || !ok {
			t.Fatalf("the cache makes %T of a pod (error %v)", object, err)
		}
		list[i] = *pod
	}
	return list
}
