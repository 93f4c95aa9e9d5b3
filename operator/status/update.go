// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

// update is the progress of a rolling update.
type update struct {
	spec   v1alpha1.UpdateSpec
	status *v1alpha1.UpdateStatus // nil when all nodes run the current one
	// hitPercent is the present hit ratio; nil when engines looked up no page, or when no node answers.
	hitPercent *int32
}

// trackUpdate keeps the hit ratio with which an update began, and pauses the update while the ratio is more than
// maxHitRatioDrop below it. While no node answers, the update keeps its state.
func trackUpdate(seen *Observed, progress rollout) update {
	status := seen.Cluster.Status
	u := update{spec: seen.Cluster.Spec.Update}
	if progress.updated == progress.desired && !progress.pending {
		return u
	}
	u.status = &v1alpha1.UpdateStatus{State: v1alpha1.UpdateProceeding}
	if seen.Fleet.Fleet != nil {
		if percent, known := seen.Fleet.Fleet.HitPercent(); known {
			u.status.HitRatioBefore = &percent
		}
	}
	if status.Update != nil {
		*u.status = *status.Update
	}
	if u.onDelete() || u.spec.MaxHitRatioDrop == nil {
		u.status.State = v1alpha1.UpdateProceeding
		return u
	}
	if seen.Fleet.Fleet == nil {
		return u
	}
	u.hitPercent = lowestHitPercent(seen.Fleet.Fleet)
	u.status.State = v1alpha1.UpdateProceeding
	if u.status.HitRatioBefore != nil && u.hitPercent != nil && *u.status.HitRatioBefore-*u.hitPercent > *u.spec.MaxHitRatioDrop {
		u.status.State = v1alpha1.UpdatePaused
	}
	return u
}

// lowestHitPercent is the lower of the hit ratios of the last minute and of the last five seconds. The five seconds
// show a fall at once; the minute keeps a few good seconds from ending a pause.
func lowestHitPercent(view *fleet.Fleet) *int32 {
	percent, known := view.HitPercent()
	if latest, enough := view.LatestHitPercent(); enough && latest < percent {
		percent = latest
	}
	if !known {
		return nil
	}
	return &percent
}

// Gated says whether a rolling update is in progress that a falling hit ratio can pause.
func Gated(cluster *v1alpha1.PeerCacheCluster) bool {
	wanted := cluster.Spec.Update
	return cluster.Status.Update != nil && wanted.MaxHitRatioDrop != nil && wanted.Strategy != v1alpha1.UpdateOnDelete
}

// Paused says whether an update waits for the hit ratio to recover.
func Paused(update *v1alpha1.UpdateStatus) bool {
	return update != nil && update.State == v1alpha1.UpdatePaused
}

func (u update) paused() bool { return Paused(u.status) }

// onDelete says that the user replaces nodes, by deleting their pods.
func (u update) onDelete() bool { return u.spec.Strategy == v1alpha1.UpdateOnDelete }

func (u update) pauseMessage() string {
	if u.hitPercent == nil {
		return "paused until the members report their hit ratio"
	}
	return fmt.Sprintf("paused, because %d of 100 pages are found instead of %d: it continues at %d; to continue at once, raise "+
		"spec.update.maxHitRatioDrop (%d) or remove it", *u.hitPercent, *u.status.HitRatioBefore,
		*u.status.HitRatioBefore-*u.spec.MaxHitRatioDrop, *u.spec.MaxHitRatioDrop)
}
