// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/peercache/peercache/operator/status"
)

// An event triggers a pass at once. Passes without an event find what no event announces: members that join, networks
// that are created, the hit ratio, a deadline that has passed.

const (
	// changingInterval is the time to the next pass after a change.
	changingInterval = 5 * time.Second
	// stableInterval is the longest time between two passes, in whatever state a cluster is.
	stableInterval = 30 * time.Second
	// minInterval is the shortest time to a pass that waits for a deadline.
	minInterval = time.Second
)

// requeue is what the time to the next pass depends on.
type requeue struct {
	// settled says that no change is expected soon.
	settled bool
	// watching says that an update or the recreation of SGLang pods waits for something that no event announces, and
	// must see it within 10 s.
	watching bool
	// unchanged is the time since a pass last changed something.
	unchanged time.Duration
	// due is the time to the next deadline; 0 when there is none.
	due time.Duration
}

// after is the time to the next pass. A cluster that does not settle gets passes 5, 10, 20 and 40 s after the last
// change, then every 30 s, as a settled one does. random, from 0 to 1, takes up to a fifth off, so that clusters that
// changed together do not stay in step.
func (q requeue) after(random float64) time.Duration {
	wait := min(max(q.unchanged, changingInterval), stableInterval)
	switch {
	case q.watching:
		wait = changingInterval
	case q.settled:
		wait = stableInterval
	}
	wait = max(changingInterval, wait-time.Duration(random*float64(wait/5)))
	if q.due > 0 {
		wait = min(wait, max(q.due, minInterval))
	}
	return wait
}

// untilFirst is the time to the first of these times that is in the future; 0 when none is.
func untilFirst(now time.Time, times []time.Time) time.Duration {
	times = slices.DeleteFunc(times, func(at time.Time) bool { return !at.After(now) })
	if len(times) == 0 {
		return 0
	}
	return slices.MinFunc(times, time.Time.Compare).Sub(now)
}

// outcomeOf decides when the next pass over a cluster comes.
func (r *Reconciler) outcomeOf(p *pass) outcome {
	memory, now := r.memories.get(p.Cluster), r.Now()
	if p.changed || memory.changed.IsZero() {
		memory.changed = now
	}
	next := requeue{
		settled:   p.settled && !p.Missed.BeingRecreated,
		watching:  status.Gated(p.Cluster) || p.Missed.BeingRecreated && p.Missed.Obstacle == "",
		unchanged: now.Sub(memory.changed),
		due:       untilFirst(now, append(status.Deadlines(p.Pods, &memory.status), p.deadlines...)),
	}
	word := resultChanging
	if next.settled {
		word = resultStable
	}
	return outcome{word, next.after(rand.Float64())} //nolint:gosec // no secret
}
