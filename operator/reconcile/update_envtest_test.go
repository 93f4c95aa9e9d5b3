// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

// hits returns what sets the hit ratio that three nodes report, in percent, and passes when the operator asks for it next.
func (b *bench) hits() func(percent uint64) {
	var passed time.Duration
	b.reconciler.Now = func() time.Time { return time.Now().Add(passed) }
	return func(percent uint64) {
		b.Helper()
		b.fleet.answers = []fleet.NodeStatus{{Fleet: &fleet.Fleet{Members: 3, RecentLookedUp: 100, RecentDelivered: percent}}}
		passed += askInterval
		b.pass()
	}
}

func TestUpdateWaitsForTheHitRatio(t *testing.T) {
	b := newBench(t)
	setHits := b.hits()
	strategy := func(want appsv1.DaemonSetUpdateStrategyType) {
		t.Helper()
		if got := b.daemonSet("default").Spec.UpdateStrategy; got.Type != want || (got.RollingUpdate != nil) != (want == "RollingUpdate") {
			t.Errorf("the strategy is %+v, want %s", got, want)
		}
	}
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Update = v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling, MaxHitRatioDrop: new(int32(20))}
	})
	b.pass()
	b.startPods("default", true, true, true)
	b.pass() // labels the hosts, which later passes ask
	setHits(90)
	if status := b.get().Status; status.Update != nil {
		t.Fatalf("before the update the status is %+v", status)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.setCounts("default", 3, 1, 3)
	setHits(71)
	b.condition("Progressing", metav1.ConditionTrue, "RollingOut", "1 of 3")
	strategy(appsv1.RollingUpdateDaemonSetStrategyType)

	b.events()
	setHits(60)
	b.pass()
	strategy(appsv1.OnDeleteDaemonSetStrategyType)
	b.setCounts("default", 3, 1, 3)
	b.pass()
	b.condition("Progressing", metav1.ConditionTrue, "Paused", "60 of 100 pages are found instead of 90: it continues at 70")
	if recorded := b.events(); !slices.ContainsFunc(recorded, func(e string) bool { return strings.HasPrefix(e, "Warning Paused") }) {
		t.Errorf("no warning among %q", recorded)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("a pause writes %q", again)
	}

	setHits(75)
	b.pass()
	strategy(appsv1.RollingUpdateDaemonSetStrategyType)
	b.setCounts("default", 3, 3, 3)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "3/3")
	if update := b.get().Status.Update; update != nil {
		t.Errorf("an update that is over is still remembered: %+v", update)
	}
}

// TestUpdateIsHeldToTheRatioOfWhenItBegins has engines begin to read after the operator has last asked.
func TestUpdateIsHeldToTheRatioOfWhenItBegins(t *testing.T) {
	b := newBench(t)
	var passed time.Duration
	b.reconciler.Now = func() time.Time { return time.Now().Add(passed) }
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.MaxHitRatioDrop = new(int32(50)) })
	b.pass()
	b.startPods("default", true, true, true)
	b.pass()
	b.fleet.answers = []fleet.NodeStatus{{Fleet: &fleet.Fleet{Members: 3}}}
	passed += askInterval
	b.pass()
	b.fleet.answers = []fleet.NodeStatus{{Fleet: &fleet.Fleet{Members: 3, RecentLookedUp: 100, RecentDelivered: 95}}}
	passed += 2 * gatedAskInterval
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	if update := b.get().Status.Update; update == nil || update.HitRatioBefore == nil || *update.HitRatioBefore != 95 {
		t.Errorf("the update is %+v", update)
	}
}

// TestUpdatePausesWithinTenSeconds empties the pools during an update. Within ten seconds, only the numbers of the last five
// seconds show the fall.
func TestUpdatePausesWithinTenSeconds(t *testing.T) {
	b := newBench(t)
	var passed time.Duration
	b.reconciler.Now = func() time.Time { return time.Now().Add(passed) }
	// setAnswers sets what the nodes report this long after they were emptied. Before, engines got 90 of 100 pages.
	setAnswers := func(since time.Duration) {
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
	b.startPods("default", true, true, true)
	b.pass()
	setAnswers(0)
	passed += askInterval
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.setCounts("default", 3, 1, 3)
	b.pass()

	// Passes during an update are at most five seconds apart. One comes just before the fall is visible.
	var since time.Duration
	for _, since = range []time.Duration{2 * time.Second, 7 * time.Second, 12 * time.Second} {
		setAnswers(since)
		passed += changingInterval
		b.pass()
		if update := b.get().Status.Update; update != nil && update.State == v1alpha1.UpdatePaused {
			b.pass() // the change of the status triggers the next pass
			break
		}
	}
	if since > 10*time.Second {
		t.Errorf("paused after %s", since)
	}
	if got := b.daemonSet("default").Spec.UpdateStrategy.Type; got != appsv1.OnDeleteDaemonSetStrategyType {
		t.Errorf("the strategy is %s", got)
	}
	// During the update the operator asks nodes more often, so a pass that an event triggers has new numbers.
	setAnswers(2 * time.Minute)
	b.fleet.answers[0].Fleet.RecentDelivered, b.fleet.answers[0].Fleet.LatestDelivered = 54000, 4500
	passed += gatedAskInterval
	b.pass()
	if update := b.get().Status.Update; update == nil || update.State != v1alpha1.UpdateProceeding {
		t.Errorf("with the ratio back, the update is %+v", update)
	}
}

// TestUpdateGoesOnPastALostMachine loses a machine during an update of three members.
func TestUpdateGoesOnPastALostMachine(t *testing.T) {
	b := newBench(t)
	b.machine("a", corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")})
	budget := func(want string) {
		t.Helper()
		if got := b.daemonSet("default").Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String(); got != want {
			t.Errorf("%s members may be away, want %s", got, want)
		}
	}
	b.cluster(b.here, func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.Strategy = v1alpha1.UpdateRolling })
	b.pass()
	daemonSet := b.daemonSet("default")
	daemonSet.Spec.Template.Spec.NodeName = b.namespace + "-a"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: "demo-default-a", Labels: daemonSet.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: daemonSet.Spec.Template.Spec,
	}
	b.must(b.Create(t.Context(), pod))
	b.setCounts("default", 3, 3, 3)
	b.pass()
	b.taint("a", corev1.TaintNodeUnreachable)
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("without an update a lost machine wrote %q", wrote)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.setCounts("default", 3, 0, 2)
	b.pass()
	b.pass() // the update is in the status now
	budget("2")
	b.setCounts("default", 3, 1, 2)
	b.pass()
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("the machine is still away, but the operator wrote %q", wrote)
	}
	b.taint("a", "")
	b.pass()
	budget("10%")
}

// taint marks a machine as Kubernetes does when it is not ready; "" takes the mark away.
func (b *bench) taint(machine, key string) {
	b.Helper()
	node := &corev1.Node{}
	b.must(b.Get(b.Context(), client.ObjectKey{Name: b.namespace + "-" + machine}, node))
	node.Spec.Taints = nil
	if key != "" {
		node.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute}}
	}
	b.must(b.Update(b.Context(), node))
}

func TestUpdateByHand(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.Strategy = v1alpha1.UpdateOnDelete })
	b.pass()
	b.startPods("default", true, true)
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.setCounts("default", 2, 0, 2)
	b.pass()
	b.condition("Progressing", metav1.ConditionFalse, "WaitingForDeletion", "0 of 2")
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "2/2 members serve; 0 of 2")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("waiting writes %q", again)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Update = v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling}
	})
	b.pass()
	if got := b.daemonSet("default").Spec.UpdateStrategy; got.RollingUpdate == nil || got.RollingUpdate.MaxUnavailable.String() != "10%" {
		t.Errorf("the strategy is %+v", got)
	}
}
