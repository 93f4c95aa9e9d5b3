// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/discovery"
	"github.com/peercache/peercache/operator/fleet"
)

// clock is a bench whose clock the test advances.
type clock struct {
	*bench
	now time.Time
}

func newClock(b *bench) *clock {
	c := &clock{b, time.Now()}
	b.reconciler.Now = func() time.Time { return c.now }
	return c
}

// reconcile makes one pass, and returns its writes and the time until the next one.
func (c *clock) reconcile() (wrote []string, again time.Duration) {
	c.Helper()
	c.writes.reset()
	result, err := c.reconciler.Reconcile(c.Context(), ctrl.Request{
		NamespacedName: client.ObjectKey{Namespace: c.namespace, Name: "demo"}})
	c.must(err)
	if result.RequeueAfter <= 0 {
		c.Fatalf("no pass is scheduled: %+v", result)
	}
	return c.writes.list(), result.RequeueAfter
}

// wait advances the clock without an event, and returns the number of passes and their writes.
func (c *clock) wait(span time.Duration) (passes int, wrote []string) {
	c.Helper()
	for end := c.now.Add(span); ; passes++ {
		written, again := c.reconcile()
		wrote = append(wrote, written...)
		if c.now = c.now.Add(again); c.now.After(end) {
			return passes + 1, wrote
		}
	}
}

// TestClustersThatNeverSettle checks that such a cluster gets as few passes as a settled one, and no writes, while nothing
// changes.
func TestClustersThatNeverSettle(t *testing.T) {
	waits := func(b *bench, reason string) {
		b.Helper()
		pods := b.startPods("default", true, false)
		b.read(pods[1].Name, &pods[1])
		pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "peercached", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		b.must(b.Status().Update(b.Context(), &pods[1]))
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.PeerCacheClusterSpec)
		happen func(*bench)
		tries  bool // every pass retries what the API server refuses
	}{
		"no machines":              {happen: func(b *bench) { b.setCounts("default", 0, 0, 0) }},
		"machines without pods":    {happen: func(b *bench) { b.setCounts("default", 3, 0, 0) }},
		"no DaemonSet controller":  {},
		"an image that is missing": {happen: func(b *bench) { waits(b, "ImagePullBackOff") }},
		"a member that crashes":    {happen: func(b *bench) { waits(b, "CrashLoopBackOff") }},
		"a member that never joins": {happen: func(b *bench) {
			b.startPods("default", true, true)
			b.fleet.answers = []fleet.NodeStatus{{Members: []fleet.Member{{ID: "x", State: "active"}}, Fleet: &fleet.Fleet{Members: 1}}}
		}},
		"networks that nobody makes": {
			change: func(s *v1alpha1.PeerCacheClusterSpec) {
				rail := sharedRail("a", "default")
				rail.Network = &v1alpha1.RailNetwork{Name: "rail0"}
				s.Rails = []v1alpha1.Rail{rail}
			},
			happen: func(b *bench) { b.startPods("default", true) },
		},
		"a spec that is refused": {change: func(s *v1alpha1.PeerCacheClusterSpec) { s.PodTemplate = template(`{"hostNetwrk": true}`) }},
		"a spec that the API server refuses": {tries: true, change: func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Nodes.Tolerations = []corev1.Toleration{{Key: "k", Operator: "Maybe"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
				if test.change != nil {
					test.change(s)
				}
			})
			b.pass()
			if test.happen != nil {
				test.happen(b)
			}
			c := newClock(b)
			if passes, _ := c.wait(5 * time.Minute); passes > 20 {
				t.Errorf("%d passes in the first five minutes, want at most 20", passes)
			}
			passes, wrote := c.wait(20 * time.Minute)
			if passes < 40 || passes > 51 {
				t.Errorf("%d passes in 20 minutes in which nothing changes, want one every 24 to 30 s", passes)
			}
			wrote = slices.DeleteFunc(wrote, func(w string) bool { return test.tries && strings.HasSuffix(w, "/daemonsets/demo-default") })
			if len(wrote) != 0 {
				t.Errorf("nothing changed, but the operator wrote %q", wrote)
			}
		})
	}
}

// TestIntervalsAfterAChange checks the growing intervals after a change.
func TestIntervalsAfterAChange(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	c := newClock(b)
	c.wait(10 * time.Minute)
	if _, again := c.reconcile(); again < stableInterval*4/5 {
		t.Fatalf("after ten minutes the next look is in %s", again)
	}
	b.startPods("default", true, true)
	if _, again := c.reconcile(); again != changingInterval {
		t.Errorf("pods came, and members are asked about in %s, want %s", again, changingInterval)
	}
	c.now = c.now.Add(changingInterval)
	b.fleet.answers = []fleet.NodeStatus{{Members: []fleet.Member{{ID: "x", State: "active"}, {ID: "y", State: "active"}}}}
	if wrote, again := c.reconcile(); len(wrote) != 1 || again != changingInterval {
		t.Errorf("members joined: wrote %q, and the next look is in %s, want the status and %s", wrote, again, changingInterval)
	}
	c.wait(5 * time.Minute)
	if wrote, again := c.reconcile(); len(wrote) != 0 || again < stableInterval*4/5 {
		t.Errorf("nothing changed since, but the operator wrote %q, and the next look is in %s", wrote, again)
	}
}

// TestLostHostIsReplacedInTime checks that a host that is not ready is replaced when it counts as lost, although passes are
// rare.
func TestLostHostIsReplacedInTime(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Replicas = 1 })
	b.pass()
	pods := b.startPods("default", true, true)
	c := newClock(b)
	c.wait(10 * time.Minute)
	if got := b.hosts(); got != "a" {
		t.Fatalf("hosts are %q, want a", got)
	}
	lost := c.now.Truncate(time.Second)
	b.read(pods[0].Name, &pods[0])
	pods[0].Status.Conditions[0] = corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(lost)}
	b.must(b.Status().Update(t.Context(), &pods[0]))
	for b.hosts() == "a" {
		_, again := c.reconcile()
		if b.hosts() == "a" {
			c.now = c.now.Add(again)
		}
	}
	if took := c.now.Sub(lost); took < discovery.LostAfter || took > discovery.LostAfter+2*time.Second {
		t.Errorf("the host was replaced after %s, want %s", took, discovery.LostAfter)
	}
}

// TestGatedUpdateKeepsItsInterval checks that an update that waits for the hit ratio gets a pass every 5 s, however long it
// waits.
func TestGatedUpdateKeepsItsInterval(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.MaxHitRatioDrop = new(int32(20)) })
	b.pass()
	b.startPods("default", true, true, true)
	c := newClock(b)
	c.wait(5 * time.Minute)
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.setCounts("default", 3, 1, 3)
	c.wait(10 * time.Minute)
	if _, again := c.reconcile(); again != changingInterval {
		t.Errorf("an update is under way, and the hit ratio is asked for in %s, want %s", again, changingInterval)
	}
	b.setCounts("default", 3, 3, 3)
	c.wait(5 * time.Minute)
	if _, again := c.reconcile(); again < stableInterval*4/5 {
		t.Errorf("the update is over, and the cluster is looked at in %s", again)
	}
}
