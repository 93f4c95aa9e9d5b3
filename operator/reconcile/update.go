// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

// update is what conditions say of nodes that run a former spec.
type update struct {
	spec  v1alpha1.UpdateSpec
	under *v1alpha1.UpdateStatus // nil when all nodes run the current one
	now   *int32                 // percent of hits; nil when nobody looked anything up, or it is not known
}

// followUpdate says what is to be remembered of an update: the hit ratio that it began with, and whether it waits for
// that to come back. While nothing is heard of the nodes, it goes on waiting.
func followUpdate(p *pass, progress rollout) update {
	status := p.cluster.Status
	u := update{spec: p.cluster.Spec.Update}
	if progress.updated == progress.desired && !progress.pending {
		return u
	}
	u.under = &v1alpha1.UpdateStatus{HitRatioBefore: status.HitRatioPercent, State: v1alpha1.UpdateProceeding}
	if p.heard.fleet != nil {
		// A status that an earlier release wrote shows another ratio than these nodes could tell.
		if _, known := p.heard.fleet.HitPercent(); !known {
			u.under.HitRatioBefore = nil
		}
	}
	if status.Update != nil {
		*u.under = *status.Update
	}
	if u.byHand() || u.spec.MaxHitRatioDrop == nil {
		u.under.State = v1alpha1.UpdateProceeding
		return u
	}
	if p.heard.fleet == nil {
		return u
	}
	u.now = lowestHits(p.heard.fleet)
	u.under.State = v1alpha1.UpdateProceeding
	if u.under.HitRatioBefore != nil && u.now != nil && *u.under.HitRatioBefore-*u.now > *u.spec.MaxHitRatioDrop {
		u.under.State = v1alpha1.UpdatePaused
	}
	return u
}

// lowestHits is the hit ratio of the last minute or of the last five seconds, whichever is lower: a fall shows in the seconds
// at once, and the minute keeps single good seconds from ending a pause.
func lowestHits(heard *fleet.Fleet) *int32 {
	percent, known := heard.HitPercent()
	if latest, enough := heard.LatestHitPercent(); enough && latest < percent {
		percent = latest
	}
	if !known {
		return nil
	}
	return &percent
}

// gated says whether an update is under way that a falling hit ratio pauses.
func gated(cluster *v1alpha1.PeerCacheCluster) bool {
	wanted := cluster.Spec.Update
	return cluster.Status.Update != nil && wanted.MaxHitRatioDrop != nil && wanted.Strategy != v1alpha1.UpdateOnDelete
}

func paused(under *v1alpha1.UpdateStatus) bool {
	return under != nil && under.State == v1alpha1.UpdatePaused
}

func (u update) paused() bool { return paused(u.under) }

// byHand says that nodes are replaced when somebody deletes their pods.
func (u update) byHand() bool { return u.spec.Strategy == v1alpha1.UpdateOnDelete }

// pauseText says what a pause waits for.
func (u update) pauseText() string {
	if u.now == nil {
		return "paused until the nodes tell their hit ratio"
	}
	return fmt.Sprintf("paused, because %d of 100 pages are found instead of %d: it goes on at %d; to go on at once, raise "+
		"spec.update.maxHitRatioDrop (%d) or remove it", *u.now, *u.under.HitRatioBefore,
		*u.under.HitRatioBefore-*u.spec.MaxHitRatioDrop, *u.spec.MaxHitRatioDrop)
}
