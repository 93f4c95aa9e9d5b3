// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// noon is the time at which the tests look at pods.
var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

// testPod is a pod that became ready an hour ago, changed by the given functions.
func testPod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "inference", Name: name,
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			Labels:            map[string]string{v1alpha1.LabelCluster: "demo"},
		},
		Spec: corev1.PodSpec{NodeName: "machine-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
			}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: plan.ContainerName, Image: "dataplane:1"}},
		},
	}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func hosting(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelDiscovery] = v1alpha1.DiscoveryHost }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(noon)) }

func aged(age time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(noon.Add(-age)) }
}

func unreadyFor(since time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-since))
	}
}

func pending(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodPending
	pod.Status.PodIP = ""
	pod.Status.Conditions = nil
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

// cached is what the cache keeps of pods: the steps of a pass see no more.
func cached(t *testing.T, pods ...corev1.Pod) []corev1.Pod {
	t.Helper()
	list := make([]corev1.Pod, len(pods))
	for i := range pods {
		object, err := slimPod(&pods[i])
		slim, ok := object.(*corev1.Pod)
		if err != nil || !ok {
			t.Fatalf("the cache makes %T of a pod (error %v)", object, err)
		}
		list[i] = *slim
	}
	return list
}
