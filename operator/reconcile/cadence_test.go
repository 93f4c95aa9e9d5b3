// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestNextLook(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name   string
		after  cadence
		random float64
		want   time.Duration
	}{
		{"a change", cadence{}, 0, 5 * s},
		{"a change, at random: never earlier", cadence{}, 1, 5 * s},
		{"none for 5 s", cadence{unchanged: 5 * s}, 0, 5 * s},
		{"none for 10 s", cadence{unchanged: 10 * s}, 0, 10 * s},
		{"none for 10 s, at random", cadence{unchanged: 10 * s}, 1, 8 * s},
		{"none for a day", cadence{unchanged: 24 * time.Hour}, 0, 30 * s},
		{"none for a day, at random", cadence{unchanged: 24 * time.Hour}, 1, 24 * s},
		{"a clock that was put back", cadence{unchanged: -time.Hour}, 0.5, 5 * s},
		{"settled", cadence{settled: true}, 0, 30 * s},
		{"settled, at random", cadence{settled: true}, 0.5, 27 * s},
		{"an update that waits", cadence{watching: true, unchanged: time.Hour}, 1, 5 * s},
		{"an update that waits, though all else has settled", cadence{watching: true, settled: true}, 0, 5 * s},
		{"a deadline", cadence{settled: true, due: 12 * s}, 0, 12 * s},
		{"a deadline that is later than the look", cadence{due: 12 * s}, 0, 5 * s},
		{"a deadline that is near", cadence{due: time.Millisecond}, 0, s},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.after.next(test.random); got != test.want {
				t.Errorf("the next look is after %s, want %s", got, test.want)
			}
		})
	}
}

// A cluster that never settles costs in the long run what one costs that has settled.
func TestLooksBecomeRare(t *testing.T) {
	for _, random := range []float64{0, 0.5, 1} {
		looks := 0
		for unchanged := time.Duration(0); unchanged < time.Hour; looks++ {
			unchanged += cadence{unchanged: unchanged}.next(random)
		}
		stable := int(time.Hour / cadence{settled: true}.next(random))
		if looks < stable || looks > stable+5 {
			t.Errorf("%d looks in an hour, a stable cluster takes %d", looks, stable)
		}
	}
}

func TestDeadlines(t *testing.T) {
	created := func(ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pending(pod); aged(ago)(pod) }
	}
	tests := []struct {
		name    string
		pods    []corev1.Pod
		refused time.Duration // ago
		want    time.Duration
	}{
		{name: "none", refused: time.Hour},
		{name: "pods that are well", refused: time.Hour, pods: []corev1.Pod{testPod("a"), testPod("b", hosting)}},
		{name: "not ready, until that is a fault", refused: time.Hour, pods: []corev1.Pod{testPod("a", unreadyFor(20*time.Second))},
			want: 40 * time.Second},
		{name: "a fault", refused: time.Hour, pods: []corev1.Pod{testPod("a", unreadyFor(time.Hour))}},
		{name: "a host, until it is lost", refused: time.Hour, pods: []corev1.Pod{testPod("a", hosting, unreadyFor(20*time.Second))},
			want: 10 * time.Second},
		{name: "the first of several", refused: time.Hour, want: 5 * time.Second,
			pods: []corev1.Pod{testPod("a", unreadyFor(20*time.Second)), testPod("b", unreadyFor(55*time.Second))}},
		{name: "one that ends", refused: time.Hour, pods: []corev1.Pod{testPod("a", terminating, unreadyFor(20*time.Second))}},
		{name: "one that the kubelet has not answered for", refused: time.Hour, pods: []corev1.Pod{testPod("a", created(4*time.Second))},
			want: 6 * time.Second},
		{name: "refused pods", refused: 10 * time.Second, want: 20 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := until(noon, deadlines(cached(t, test.pods...), noon.Add(-test.refused))); got != test.want {
				t.Errorf("the first deadline is after %s, want %s", got, test.want)
			}
		})
	}
}

func TestTrafficIsNoProgress(t *testing.T) {
	before := v1alpha1.PeerCacheClusterStatus{ReadyNodes: 3, Engines: 5}
	after := before
	after.Engines, after.HitRatioPercent = 6, new(int32(90))
	if progressed(before, after) {
		t.Error("requests of SGLang have the cluster looked at more often")
	}
	after.ReadyNodes = 4
	if !progressed(before, after) {
		t.Error("a node that became ready is no progress")
	}
}
