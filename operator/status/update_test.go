// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

func TestTrackUpdate(t *testing.T) {
	rolling, done := rollout{desired: 3, ready: 3, updated: 1}, rollout{desired: 3, ready: 3, updated: 3}
	unseen := rollout{desired: 3, ready: 3, updated: 3, pending: true}
	limited := v1alpha1.UpdateSpec{MaxHitRatioDrop: new(int32(20))}
	begun := func(before int32, paused bool) *v1alpha1.UpdateStatus {
		status := &v1alpha1.UpdateStatus{HitRatioBefore: &before, State: v1alpha1.UpdateProceeding}
		if paused {
			status.State = v1alpha1.UpdatePaused
		}
		return status
	}
	tests := []struct {
		name     string
		spec     v1alpha1.UpdateSpec
		progress rollout
		before   *v1alpha1.UpdateStatus
		view     *int32 // percent of hits, -1 without lookups, nil without answers
		want     *v1alpha1.UpdateStatus
	}{
		{"nothing to update", limited, done, nil, new(int32(90)), nil},
		{"it is over, and forgotten", limited, done, begun(90, true), new(int32(10)), nil},
		{"it begins", limited, unseen, nil, new(int32(88)), begun(88, false)},
		{"it begins while nobody answers", limited, unseen, nil, nil, &v1alpha1.UpdateStatus{State: v1alpha1.UpdateProceeding}},
		{"it begins while nobody asks for pages", limited, rolling, nil, new(int32(-1)), &v1alpha1.UpdateStatus{State: v1alpha1.UpdateProceeding}},
		{"a fall that is allowed", limited, rolling, begun(90, false), new(int32(70)), begun(90, false)},
		{"one that is not", limited, rolling, begun(90, false), new(int32(69)), begun(90, true)},
		{"it is compared with the beginning, not with the last look", limited, rolling, begun(90, true), new(int32(65)), begun(90, true)},
		{"engines have filled the members again", limited, rolling, begun(90, true), new(int32(70)), begun(90, false)},
		{"nobody asks any more", limited, rolling, begun(90, true), new(int32(-1)), begun(90, false)},
		{"nobody answers: it waits on", limited, rolling, begun(90, true), nil, begun(90, true)},
		{"nobody answers: it goes on", limited, rolling, begun(90, false), nil, begun(90, false)},
		{"no limit", v1alpha1.UpdateSpec{}, rolling, begun(90, false), new(int32(1)), begun(90, false)},
		{"the limit is gone", v1alpha1.UpdateSpec{}, rolling, begun(90, true), new(int32(1)), begun(90, false)},
		{"the limit is gone, and nobody answers", v1alpha1.UpdateSpec{}, rolling, begun(90, true), nil, begun(90, false)},
		{"by hand", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateOnDelete, MaxHitRatioDrop: new(int32(5))}, rolling, begun(90, false),
			new(int32(1)), begun(90, false)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := &Observed{Cluster: &v1alpha1.PeerCacheCluster{}}
			seen.Cluster.Spec.Update, seen.Cluster.Status.Update = test.spec, test.before
			if test.view != nil {
				seen.Fleet.Fleet = fleetWithHits(*test.view)
			}
			got := trackUpdate(seen, test.progress).status
			switch {
			case (got == nil) != (test.want == nil):
				t.Fatalf("got %+v, want %+v", got, test.want)
			case got == nil:
			case got.State != test.want.State || percentOf(got.HitRatioBefore) != percentOf(test.want.HitRatioBefore):
				t.Errorf("got %d, %s; want %d, %s", percentOf(got.HitRatioBefore), got.State,
					percentOf(test.want.HitRatioBefore), test.want.State)
			}
			if test.before != nil && seen.Cluster.Status.Update != test.before {
				t.Error("the status was changed while it was looked at")
			}
		})
	}
}

// TestUpdatePausesWhenTheHitRatioFalls empties the pools during an update: most of the last minute was good, and the last
// seconds were not.
func TestUpdatePausesWhenTheHitRatioFalls(t *testing.T) {
	tests := []struct {
		name   string
		view   fleet.Fleet
		paused bool
	}{
		{"as before", fleet.Fleet{RecentLookedUp: 60000, RecentDelivered: 54000, LatestLookedUp: 5000, LatestDelivered: 4500}, false},
		{"emptied", fleet.Fleet{RecentLookedUp: 60000, RecentDelivered: 49500, LatestLookedUp: 5000}, true},
		{"a few prompts that nobody had", fleet.Fleet{RecentLookedUp: 60000, RecentDelivered: 53900, LatestLookedUp: 100}, false},
		{"filled again, and so for seconds", fleet.Fleet{RecentLookedUp: 60000, RecentDelivered: 30000, LatestLookedUp: 5000,
			LatestDelivered: 4500}, true},
		{"nobody looks anything up", fleet.Fleet{}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := &Observed{Cluster: &v1alpha1.PeerCacheCluster{}}
			seen.Cluster.Spec.Update.MaxHitRatioDrop = new(int32(20))
			seen.Cluster.Status.Update = &v1alpha1.UpdateStatus{HitRatioBefore: new(int32(90)), State: v1alpha1.UpdateProceeding}
			seen.Fleet.Fleet = &test.view
			if got := trackUpdate(seen, rollout{desired: 3, ready: 3, updated: 1}); got.paused() != test.paused {
				t.Errorf("paused is %t, want %t", got.paused(), test.paused)
			}
		})
	}
}

func fleetWithHits(percent int32) *fleet.Fleet {
	if percent < 0 {
		return &fleet.Fleet{}
	}
	return &fleet.Fleet{RecentLookedUp: 1000, RecentDelivered: uint64(percent) * 10}
}

func percentOf(value *int32) int32 {
	if value == nil {
		return -1
	}
	return *value
}
