// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

func TestUpdateWaitsForTheHitRatio(t *testing.T) {
	b := newBench(t)
	var passed time.Duration
	b.reconciler.Now = func() time.Time { return time.Now().Add(passed) }
	// hear lets the nodes say how many of a hundred pages they find.
	hear := func(percent uint64) {
		b.fleet.answers = []fleet.NodeStatus{{Fleet: &fleet.Fleet{Members: 3, RecentLookedUp: 100, RecentDelivered: percent}}}
		passed += askEvery
		b.pass()
	}
	strategy := func(want appsv1.DaemonSetUpdateStrategyType) {
		t.Helper()
		if got := b.daemonSet("default").Spec.UpdateStrategy; got.Type != want || (got.RollingUpdate != nil) != (want == "RollingUpdate") {
			t.Errorf("the strategy is %+v, want %s", got, want)
		}
	}
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.MaxHitRatioDrop = new(int32(20)) })
	b.pass()
	b.roll("default", true, true, true)
	b.pass() // labels the hosts, which are asked from then on
	hear(90)
	if status := b.get().Status; status.Update != nil || status.HitRatioPercent == nil {
		t.Fatalf("before the update the status is %+v", status)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.count("default", 3, 1, 3)
	hear(71)
	b.condition("Progressing", metav1.ConditionTrue, "RollingOut", "1 of 3")
	strategy(appsv1.RollingUpdateDaemonSetStrategyType)

	b.events()
	hear(60)
	b.pass()
	strategy(appsv1.OnDeleteDaemonSetStrategyType)
	b.count("default", 3, 1, 3)
	b.pass()
	b.condition("Progressing", metav1.ConditionTrue, "Paused", "60 of 100 pages are found instead of 90: it goes on at 70")
	if recorded := b.events(); !slices.ContainsFunc(recorded, func(e string) bool { return strings.HasPrefix(e, "Warning Paused") }) {
		t.Errorf("no warning among %q", recorded)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("a pause writes %q", again)
	}

	hear(75)
	b.pass()
	strategy(appsv1.RollingUpdateDaemonSetStrategyType)
	b.count("default", 3, 3, 3)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllNodesReady", "3/3")
	if update := b.get().Status.Update; update != nil {
		t.Errorf("an update that is over is still remembered: %+v", update)
	}
}

// Pools that are emptied in the middle of a roll pause it within ten seconds: of all that the nodes say, only the last
// seconds show it by then.
func TestUpdatePausesWithinTenSeconds(t *testing.T) {
	b := newBench(t)
	var passed time.Duration
	b.reconciler.Now = func() time.Time { return time.Now().Add(passed) }
	// say is what nodes tell so long after they were emptied; before that, engines got 90 of 100 pages.
	say := func(since time.Duration) {
		const perSecond = 1000
		good := func(window time.Duration) uint64 {
			return uint64(max(0, (window-since).Seconds()) * perSecond * 9 / 10)
		}
		b.fleet.answers = []fleet.NodeStatus{{Fleet: &fleet.Fleet{
			Members: 3, RecentLookedUp: 60 * perSecond, RecentDelivered: good(time.Minute),
			LatestLookedUp: 5 * perSecond, LatestDelivered: good(5 * time.Second),
		}}}
	}
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.MaxHitRatioDrop = new(int32(50)) })
	b.pass()
	b.roll("default", true, true, true)
	b.pass()
	say(0)
	passed += askEvery
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.count("default", 3, 1, 3)
	b.pass()

	// The passes of a roll are five seconds apart at most. One comes just before the fall shows.
	var since time.Duration
	for _, since = range []time.Duration{2 * time.Second, 7 * time.Second, 12 * time.Second} {
		say(since)
		passed += whileChanging
		b.pass()
		if update := b.get().Status.Update; update != nil && update.State == v1alpha1.UpdatePaused {
			b.pass() // the status has turned, which makes the next pass
			break
		}
	}
	if since > 10*time.Second {
		t.Errorf("paused after %s", since)
	}
	if got := b.daemonSet("default").Spec.UpdateStrategy.Type; got != appsv1.OnDeleteDaemonSetStrategyType {
		t.Errorf("the strategy is %s", got)
	}
	// Asked more often than otherwise: a pass that an event makes learns what is new.
	say(2 * time.Minute)
	b.fleet.answers[0].Fleet.RecentDelivered, b.fleet.answers[0].Fleet.LatestDelivered = 54000, 4500
	passed += askGatedEvery
	b.pass()
	if update := b.get().Status.Update; update == nil || update.State != v1alpha1.UpdateProceeding {
		t.Errorf("with the ratio back, the update is %+v", update)
	}
}

func TestUpdateByHand(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.Strategy = v1alpha1.UpdateOnDelete })
	b.pass()
	b.roll("default", true, true)
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.count("default", 2, 0, 2)
	b.pass()
	b.condition("Progressing", metav1.ConditionFalse, "WaitingForDeletion", "0 of 2")
	b.condition("Ready", metav1.ConditionTrue, "AllNodesReady", "2/2 nodes serve; 0 of 2")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("waiting writes %q", again)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Update = v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling}
	})
	b.pass()
	if got := b.daemonSet("default").Spec.UpdateStrategy; got.RollingUpdate == nil || got.RollingUpdate.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the strategy is %+v", got)
	}
}
