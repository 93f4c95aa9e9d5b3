// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"
)

func TestRequeueAfter(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name   string
		after  requeue
		random float64
		want   time.Duration
	}{
		{"a change", requeue{}, 0, 5 * s},
		{"a change, at random: never earlier", requeue{}, 1, 5 * s},
		{"none for 5 s", requeue{unchanged: 5 * s}, 0, 5 * s},
		{"none for 10 s", requeue{unchanged: 10 * s}, 0, 10 * s},
		{"none for 10 s, at random", requeue{unchanged: 10 * s}, 1, 8 * s},
		{"none for a day", requeue{unchanged: 24 * time.Hour}, 0, 30 * s},
		{"none for a day, at random", requeue{unchanged: 24 * time.Hour}, 1, 24 * s},
		{"a clock that was put back", requeue{unchanged: -time.Hour}, 0.5, 5 * s},
		{"settled", requeue{settled: true}, 0, 30 * s},
		{"settled, at random", requeue{settled: true}, 0.5, 27 * s},
		{"an update that waits", requeue{watching: true, unchanged: time.Hour}, 1, 5 * s},
		{"an update that waits, though all else has settled", requeue{watching: true, settled: true}, 0, 5 * s},
		{"a deadline", requeue{settled: true, due: 12 * s}, 0, 12 * s},
		{"a deadline that is later than the look", requeue{due: 12 * s}, 0, 5 * s},
		{"a deadline that is near", requeue{due: time.Millisecond}, 0, s},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.after.after(test.random); got != test.want {
				t.Errorf("the next look is after %s, want %s", got, test.want)
			}
		})
	}
}

// TestPassesBecomeRare checks that in the long run, a cluster that never settles costs as much as a settled one.
func TestPassesBecomeRare(t *testing.T) {
	for _, random := range []float64{0, 0.5, 1} {
		passes := 0
		for unchanged := time.Duration(0); unchanged < time.Hour; passes++ {
			unchanged += requeue{unchanged: unchanged}.after(random)
		}
		stable := int(time.Hour / requeue{settled: true}.after(random))
		if passes < stable || passes > stable+5 {
			t.Errorf("%d passes in an hour, a stable cluster takes %d", passes, stable)
		}
	}
}
