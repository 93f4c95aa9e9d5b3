// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestAwaitingReplacement(t *testing.T) {
	const generation = 3
	said := func(status metav1.ConditionStatus, reason string, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: status, Reason: reason, ObservedGeneration: generation}}
	}
	refused := said(metav1.ConditionTrue, "NUMAMisaligned", generation)
	fresh := func(pod *corev1.Pod) {
		pending(pod)
		pod.Status.ContainerStatuses = nil
	}
	old, young := testPod("a"), testPod("b", fresh, aged(time.Second))
	tests := []struct {
		name   string
		before []metav1.Condition
		pods   []corev1.Pod
		want   bool
	}{
		{"the next pod is not there yet", refused, []corev1.Pod{old}, true},
		{"nor has the last one gone", refused, []corev1.Pod{old, testPod("b", terminating)}, true},
		{"the kubelet has not answered", refused, []corev1.Pod{old, young}, true},
		{"for another refusal", said(metav1.ConditionTrue, "PodFailed", generation), []corev1.Pod{old, young}, true},
		{"the kubelet does not answer", refused, []corev1.Pod{old, testPod("b", fresh, aged(time.Minute))}, false},
		{"it is taken", refused, []corev1.Pod{old, testPod("b", pending, waiting("ContainerCreating", ""), aged(time.Second))}, false},
		{"it runs", refused, []corev1.Pod{old, testPod("b", aged(time.Second))}, false},
		{"the spec was changed", said(metav1.ConditionTrue, "NUMAMisaligned", generation-1), []corev1.Pod{old, young}, false},
		{"nothing was refused", said(metav1.ConditionFalse, "NoFaults", generation), []corev1.Pod{old, young}, false},
		{"something else was wrong", said(metav1.ConditionTrue, "NotReady", generation), []corev1.Pod{old, young}, false},
		{"the first look", nil, []corev1.Pod{old, young}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
			cluster.Status.Conditions = test.before
			if got := awaitingReplacement(cluster, cached(t, test.pods...), 2, noon); got != test.want {
				t.Errorf("retried is %v, want %v", got, test.want)
			}
		})
	}
}

func TestKeptConditions(t *testing.T) {
	cluster := &v1alpha1.PeerCacheCluster{}
	cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "NUMAMisaligned"}}
	all := []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionReady, v1alpha1.ConditionProgressing}
	refused, other := fault{reason: "NUMAMisaligned"}, fault{reason: "CrashLoopBackOff"}
	tests := []struct {
		name   string
		faults []fault
		there  int
		seen   time.Duration // time since then
		want   []string
	}{
		{"the next pod is awaited", nil, 1, time.Second, all},
		{"it is there", nil, 2, time.Second, nil},
		{"it is never made", nil, 1, time.Minute, nil},
		{"another machine refuses its pod still", []fault{refused}, 1, 0, all[2:]},
		{"something else is wrong", []fault{refused, other}, 1, 0, nil},
		{"the operator has just started", nil, 1, 24 * time.Hour, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pods := make([]corev1.Pod, test.there)
			for i := range pods {
				pods[i] = testPod("a")
			}
			if got := keptConditions(cluster, cached(t, pods...), test.faults, 2, noon.Add(-test.seen), noon); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
