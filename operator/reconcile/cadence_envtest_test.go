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
	"github.com/peercache/peercache/operator/fleet"
)

// clock is one that a test puts forward.
type clock struct {
	*bench
	now time.Time
}

func newClock(b *bench) *clock {
	c := &clock{b, time.Now()}
	b.reconciler.Now = func() time.Time { return c.now }
	return c
}

// look takes one pass and returns what it wrote and when the next one is due.
func (c *clock) look() (wrote []string, again time.Duration) {
	c.Helper()
	c.writes.reset()
	result, err := c.reconciler.Reconcile(c.Context(), ctrl.Request{
		NamespacedName: client.ObjectKey{Namespace: c.namespace, Name: "demo"}})
	c.must(err)
	if result.RequeueAfter <= 0 {
		c.Fatalf("nobody looks at the cluster any more: %+v", result)
	}
	return c.writes.list(), result.RequeueAfter
}

// wait lets time pass without an event, and returns how many looks were taken and what they wrote.
func (c *clock) wait(span time.Duration) (looks int, wrote []string) {
	c.Helper()
	for end := c.now.Add(span); ; looks++ {
		written, again := c.look()
		wrote = append(wrote, written...)
		if c.now = c.now.Add(again); c.now.After(end) {
			return looks + 1, wrote
		}
	}
}

// A cluster that cannot settle is looked at as seldom as one that has, and nothing is written, as long as nothing changes.
func TestClustersThatNeverSettle(t *testing.T) {
	waits := func(b *bench, reason string) {
		b.Helper()
		pods := b.roll("default", true, false)
		b.read(pods[1].Name, &pods[1])
		pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "peercached", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		b.must(b.Status().Update(b.Context(), &pods[1]))
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.PeerCacheClusterSpec)
		happen func(*bench)
		tries  bool // what is refused is tried again by every look
	}{
		"no machines":              {happen: func(b *bench) { b.count("default", 0, 0, 0) }},
		"machines without pods":    {happen: func(b *bench) { b.count("default", 3, 0, 0) }},
		"no DaemonSet controller":  {},
		"an image that is missing": {happen: func(b *bench) { waits(b, "ImagePullBackOff") }},
		"a node that crashes":      {happen: func(b *bench) { waits(b, "CrashLoopBackOff") }},
		"a member that never joins": {happen: func(b *bench) {
			b.roll("default", true, true)
			b.fleet.answers = []fleet.NodeStatus{{Members: []fleet.Member{{ID: "x", State: "active"}}, Fleet: &fleet.Fleet{Members: 1}}}
		}},
		"networks that nobody makes": {
			change: func(s *v1alpha1.PeerCacheClusterSpec) {
				rail := sharedRail("a", "default")
				rail.Network = "rail0"
				s.Rails = []v1alpha1.Rail{rail}
			},
			happen: func(b *bench) { b.roll("default", true) },
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
			if looks, _ := c.wait(5 * time.Minute); looks > 20 {
				t.Errorf("%d looks in the first five minutes, want at most 20", looks)
			}
			looks, wrote := c.wait(20 * time.Minute)
			if looks < 40 || looks > 51 {
				t.Errorf("%d looks in 20 minutes in which nothing changes, want one every 24 to 30 s", looks)
			}
			wrote = slices.DeleteFunc(wrote, func(w string) bool { return test.tries && strings.HasSuffix(w, "/daemonsets/demo-default") })
			if len(wrote) != 0 {
				t.Errorf("nothing changed, but the operator wrote %q", wrote)
			}
		})
	}
}

// What changes is followed closely, and then ever more rarely.
func TestChangesAreFollowed(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	c := newClock(b)
	c.wait(10 * time.Minute)
	if _, again := c.look(); again < whileStable*4/5 {
		t.Fatalf("after ten minutes the next look is in %s", again)
	}
	b.roll("default", true, true)
	if _, again := c.look(); again != whileChanging {
		t.Errorf("pods came, and members are asked about in %s, want %s", again, whileChanging)
	}
	c.now = c.now.Add(whileChanging)
	b.fleet.answers = []fleet.NodeStatus{{Members: []fleet.Member{{ID: "x", State: "active"}, {ID: "y", State: "active"}}}}
	if wrote, again := c.look(); len(wrote) != 1 || again != whileChanging {
		t.Errorf("members joined: wrote %q, and the next look is in %s, want the status and %s", wrote, again, whileChanging)
	}
	c.wait(5 * time.Minute)
	if wrote, again := c.look(); len(wrote) != 0 || again < whileStable*4/5 {
		t.Errorf("nothing changed since, but the operator wrote %q, and the next look is in %s", wrote, again)
	}
}

// A host that is not ready is replaced when it is lost, although looks have become rare.
func TestLostHostIsReplacedInTime(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Replicas = 1 })
	b.pass()
	pods := b.roll("default", true, true)
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
		_, again := c.look()
		if b.hosts() == "a" {
			c.now = c.now.Add(again)
		}
	}
	if took := c.now.Sub(lost); took < lostAfter || took > lostAfter+2*time.Second {
		t.Errorf("the host was replaced after %s, want %s", took, lostAfter)
	}
}

// An update that waits for the hit ratio is looked at every 5 s, however long it waits.
func TestGateKeepsItsCadence(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.MaxHitRatioDrop = new(int32(20)) })
	b.pass()
	b.roll("default", true, true, true)
	c := newClock(b)
	c.wait(5 * time.Minute)
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.count("default", 3, 1, 3)
	c.wait(10 * time.Minute)
	if _, again := c.look(); again != whileChanging {
		t.Errorf("an update is under way, and the hit ratio is asked for in %s, want %s", again, whileChanging)
	}
	b.count("default", 3, 3, 3)
	c.wait(5 * time.Minute)
	if _, again := c.look(); again < whileStable*4/5 {
		t.Errorf("the update is over, and the cluster is looked at in %s", again)
	}
}
