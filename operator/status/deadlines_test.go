// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestDeadlines(t *testing.T) {
	created := func(ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pending(pod); aged(ago)(pod) }
	}
	tests := []struct {
		name     string
		pods     []corev1.Pod
		rejected time.Duration // time since the last rejection
		want     time.Duration
	}{
		{name: "none", rejected: time.Hour},
		{name: "pods that are well", rejected: time.Hour, pods: []corev1.Pod{testPod("a"), testPod("b", hosting)}},
		{name: "not ready, until that is a fault", rejected: time.Hour, pods: []corev1.Pod{testPod("a", unreadyFor(20*time.Second))},
			want: 40 * time.Second},
		{name: "a fault", rejected: time.Hour, pods: []corev1.Pod{testPod("a", unreadyFor(time.Hour))}},
		{name: "a host, until it is lost", rejected: time.Hour, pods: []corev1.Pod{testPod("a", hosting, unreadyFor(20*time.Second))},
			want: 10 * time.Second},
		{name: "the first of several", rejected: time.Hour, want: 5 * time.Second,
			pods: []corev1.Pod{testPod("a", unreadyFor(20*time.Second)), testPod("b", unreadyFor(55*time.Second))}},
		{name: "one that ends", rejected: time.Hour, pods: []corev1.Pod{testPod("a", terminating, unreadyFor(20*time.Second))},
			want: 5 * time.Minute},
		{name: "one with another image, until it should have restarted", rejected: time.Hour, want: 4 * time.Minute,
			pods: []corev1.Pod{testPod("a", restartingSince(6*time.Minute))}},
		{name: "one that the kubelet has not answered for", rejected: time.Hour, pods: []corev1.Pod{testPod("a", created(4*time.Second))},
			want: 6 * time.Second},
		{name: "one without volumes, until that is a fault", rejected: time.Hour,
			pods: []corev1.Pod{testPod("a", unpreparedFor(90*time.Second), aged(time.Hour))}, want: 30 * time.Second},
		{name: "rejected pods", rejected: 10 * time.Second, want: 20 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := first(Deadlines(cached(t, test.pods...), &Memory{PodRejected: noon.Add(-test.rejected)})); got != test.want {
				t.Errorf("the first deadline is after %s, want %s", got, test.want)
			}
		})
	}
}

// first returns the time from noon to the first of these times after noon, or 0.
func first(times []time.Time) time.Duration {
	times = slices.DeleteFunc(times, func(at time.Time) bool { return !at.After(noon) })
	if len(times) == 0 {
		return 0
	}
	return slices.MinFunc(times, time.Time.Compare).Sub(noon)
}
