// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Events call for a pass at once. Looks without an event find what nobody announces: members that join, networks that
// are made, the hit ratio, a time that has passed.

const (
	// whileChanging is the time to the next look after a change.
	whileChanging = 5 * time.Second
	// whileStable is the longest time without a look, whatever state a cluster is in.
	whileStable = 30 * time.Second
	// soonest is the shortest time to a look that waits for a time to pass.
	soonest = time.Second
)

// cadence is what the time to the next look depends on.
type cadence struct {
	// settled says that nothing is to be expected soon.
	settled bool
	// watching says that an update or the recreation of SGLang pods waits for what only a look tells, within 10 s.
	watching bool
	// unchanged is how long no pass has changed anything.
	unchanged time.Duration
	// due is the time until a decision may change because time passes; 0 when there is none.
	due time.Duration
}

// next is how long a cluster goes without a look. A cluster that does not settle is looked at 5, 10, 20 and 40 s after the
// last change, then every 30 s, as one that has settled. random, from 0 to 1, takes up to a fifth off, so that clusters
// that changed together are not looked at together for ever.
func (c cadence) next(random float64) time.Duration {
	wait := min(max(c.unchanged, whileChanging), whileStable)
	switch {
	case c.watching:
		wait = whileChanging
	case c.settled:
		wait = whileStable
	}
	wait = max(whileChanging, wait-time.Duration(random*float64(wait/5)))
	if c.due > 0 {
		wait = min(wait, max(c.due, soonest))
	}
	return wait
}

// deadlines are the times at which something else is thought of pods although they stay as they are.
func deadlines(pods []corev1.Pod, refused time.Time) []time.Time {
	times := []time.Time{refused.Add(refusedStands)}
	for i := range pods {
		pod := &pods[i]
		ready := condition(pod, corev1.PodReady)
		switch {
		case !pod.DeletionTimestamp.IsZero():
		case pod.Status.Phase == corev1.PodPending:
			times = append(times, pod.CreationTimestamp.Add(answerWithin))
		case ready != nil && ready.Status != corev1.ConditionTrue:
			times = append(times, ready.LastTransitionTime.Add(stuckAfter))
			if isHost(pod) {
				times = append(times, ready.LastTransitionTime.Add(lostAfter))
			}
		}
	}
	return times
}

// until is the time to the first of these times that is yet to come; 0 when there is none.
func until(now time.Time, times []time.Time) time.Duration {
	times = slices.DeleteFunc(times, func(at time.Time) bool { return !at.After(now) })
	if len(times) == 0 {
		return 0
	}
	return slices.MinFunc(times, time.Time.Compare).Sub(now)
}

// progressed says whether a status tells of a change of the cluster, not only of its traffic.
func progressed(before, after v1alpha1.PeerCacheClusterStatus) bool {
	before.Engines, before.HitRatioPercent = after.Engines, after.HitRatioPercent
	return !equality.Semantic.DeepEqual(before, after)
}

// outcomeOf decides when a cluster is looked at again after a pass over it.
func (r *Reconciler) outcomeOf(p *pass) outcome {
	memory, now := r.memories.of(p.cluster), r.Now()
	if p.changed || memory.changed.IsZero() {
		memory.changed = now
	}
	wanted := p.cluster.Spec.Update
	gated := p.cluster.Status.Update != nil && wanted.MaxHitRatioDrop != nil && wanted.Strategy != v1alpha1.UpdateOnDelete
	c := cadence{
		settled:   p.settled && !p.missed.beingRecreated,
		watching:  gated || p.missed.beingRecreated && p.missed.obstacle == "",
		unchanged: now.Sub(memory.changed),
		due:       until(now, append(deadlines(p.facts.pods, memory.refused), p.waiting...)),
	}
	word := resultChanging
	if c.settled {
		word = resultStable
	}
	return outcome{word, c.next(rand.Float64())} //nolint:gosec // no secret
}
