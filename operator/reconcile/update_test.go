// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

func TestFollowUpdate(t *testing.T) {
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
		shown    *int32 // in the status
		heard    *int32 // percent of hits; -1: nobody asked; nil: nobody answers
		want     *v1alpha1.UpdateStatus
	}{
		{"nothing to update", limited, done, nil, new(int32(90)), new(int32(90)), nil},
		{"it is over, and forgotten", limited, done, begun(90, true), new(int32(10)), new(int32(10)), nil},
		{"it begins", limited, unseen, nil, new(int32(90)), new(int32(88)), begun(90, false)},
		{"it begins while nobody asks for pages", limited, rolling, nil, nil, new(int32(-1)), &v1alpha1.UpdateStatus{State: v1alpha1.UpdateProceeding}},
		{"a fall that is allowed", limited, rolling, begun(90, false), new(int32(70)), new(int32(70)), begun(90, false)},
		{"one that is not", limited, rolling, begun(90, false), new(int32(69)), new(int32(69)), begun(90, true)},
		{"it is compared with the beginning, not with the last look", limited, rolling, begun(90, true), new(int32(60)), new(int32(65)), begun(90, true)},
		{"engines have filled the nodes again", limited, rolling, begun(90, true), new(int32(60)), new(int32(70)), begun(90, false)},
		{"nobody asks any more", limited, rolling, begun(90, true), new(int32(60)), new(int32(-1)), begun(90, false)},
		{"nobody answers: it waits on", limited, rolling, begun(90, true), new(int32(60)), nil, begun(90, true)},
		{"nobody answers: it goes on", limited, rolling, begun(90, false), new(int32(90)), nil, begun(90, false)},
		{"no limit", v1alpha1.UpdateSpec{}, rolling, begun(90, false), new(int32(1)), new(int32(1)), begun(90, false)},
		{"the limit is gone", v1alpha1.UpdateSpec{}, rolling, begun(90, true), new(int32(1)), new(int32(1)), begun(90, false)},
		{"the limit is gone, and nobody answers", v1alpha1.UpdateSpec{}, rolling, begun(90, true), new(int32(1)), nil, begun(90, false)},
		{"by hand", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateOnDelete, MaxHitRatioDrop: new(int32(5))}, rolling, begun(90, false),
			new(int32(1)), new(int32(1)), begun(90, false)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := &pass{cluster: &v1alpha1.PeerCacheCluster{}}
			p.cluster.Spec.Update, p.cluster.Status.Update, p.cluster.Status.HitRatioPercent = test.spec, test.before, test.shown
			if test.heard != nil {
				p.heard.fleet = fleetWithHits(*test.heard)
			}
			got := followUpdate(p, test.progress).under
			switch {
			case (got == nil) != (test.want == nil):
				t.Fatalf("got %+v, want %+v", got, test.want)
			case got == nil:
			case got.State != test.want.State || percentOf(got.HitRatioBefore) != percentOf(test.want.HitRatioBefore):
				t.Errorf("got %d, %s; want %d, %s", percentOf(got.HitRatioBefore), got.State,
					percentOf(test.want.HitRatioBefore), test.want.State)
			}
			if test.before != nil && p.cluster.Status.Update != test.before {
				t.Error("the status was changed while it was looked at")
			}
		})
	}
}

// The pools are emptied in the middle of a roll: the last minute was good for most of it, the last seconds were not.
func TestFollowUpdateSeesAFallAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		heard  fleet.Fleet
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
			p := &pass{cluster: &v1alpha1.PeerCacheCluster{}}
			p.cluster.Spec.Update.MaxHitRatioDrop = new(int32(20))
			p.cluster.Status.Update = &v1alpha1.UpdateStatus{HitRatioBefore: new(int32(90)), State: v1alpha1.UpdateProceeding}
			p.heard.fleet = &test.heard
			if got := followUpdate(p, rollout{desired: 3, ready: 3, updated: 1}); got.paused() != test.paused {
				t.Errorf("paused is %t, want %t", got.paused(), test.paused)
			}
		})
	}
}

// A status of an earlier release shows hits of gets, nearly a hundred; no roll may be held to that.
func TestFollowUpdateBeginsWithARatioThatTheNodesTell(t *testing.T) {
	for _, test := range []struct {
		heard *fleet.Fleet
		want  int32
	}{{&fleet.Fleet{Members: 3}, -1}, {fleetWithHits(55), 99}, {nil, 99}} {
		p := &pass{cluster: &v1alpha1.PeerCacheCluster{}}
		p.cluster.Spec.Update.MaxHitRatioDrop = new(int32(20))
		p.cluster.Status.HitRatioPercent = new(int32(99))
		p.heard.fleet = test.heard
		got := followUpdate(p, rollout{desired: 3, ready: 3, updated: 0}).under
		if percentOf(got.HitRatioBefore) != test.want {
			t.Errorf("with %+v it begins with %d, want %d", test.heard, percentOf(got.HitRatioBefore), test.want)
		}
	}
}

func TestAPauseIsPutIntoEffectAtOnce(t *testing.T) {
	in := func(state v1alpha1.UpdateState) *v1alpha1.PeerCacheCluster {
		cluster := &v1alpha1.PeerCacheCluster{}
		if state != "" {
			cluster.Status.Update = &v1alpha1.UpdateStatus{State: state}
		}
		return cluster
	}
	for _, test := range []struct {
		before, after v1alpha1.UpdateState
		passes        bool
	}{
		{v1alpha1.UpdateProceeding, v1alpha1.UpdatePaused, true},
		{v1alpha1.UpdatePaused, v1alpha1.UpdateProceeding, true},
		{v1alpha1.UpdatePaused, "", true},
		{"", v1alpha1.UpdateProceeding, false},
		{v1alpha1.UpdatePaused, v1alpha1.UpdatePaused, false},
		{"", "", false},
	} {
		if got := updateTurned.Update(event.UpdateEvent{ObjectOld: in(test.before), ObjectNew: in(test.after)}); got != test.passes {
			t.Errorf("from %q to %q: got %t", test.before, test.after, got)
		}
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
