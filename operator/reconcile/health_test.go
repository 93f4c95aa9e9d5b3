// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

// railed is what is known of a cluster with two rails on NUMA node 0 and one on 1.
func railed(heard *fleet.Fleet) health {
	rail := func(name string, node int32) v1alpha1.Rail { return v1alpha1.Rail{Name: name, NUMANode: &node} }
	spec := v1alpha1.PeerCacheClusterSpec{
		Transport: v1alpha1.TransportRDMA, Layout: v1alpha1.LayoutPerNUMA,
		Rails: []v1alpha1.Rail{rail("a", 0), rail("b", 0), rail("c", 1)},
	}
	return health{heard: hearsay{fleet: heard}, running: true, spec: spec, groups: plan.Groups(spec)}
}

// well is what two machines of such a cluster say when nothing is wrong.
func well() *fleet.Fleet {
	return &fleet.Fleet{
		Members: 4, Rails: fleet.RailSum{Total: 6, Up: 6}, NUMA: fleet.Placement{Aligned: 4},
		Groups:  []fleet.GroupSum{{Name: "numa0", Members: 2, Rails: 4, RailsUp: 4}, {Name: "numa1", Members: 2, Rails: 2, RailsUp: 2}},
		Engines: 8, RecentLookedUp: 100, RecentDelivered: 80,
	}
}

func TestHealthConditions(t *testing.T) {
	but := func(change func(*fleet.Fleet)) health {
		heard := well()
		change(heard)
		return railed(heard)
	}
	with := func(h health, change func(*health)) health {
		change(&h)
		return h
	}
	overTCP := with(railed(nil), func(h *health) {
		h.spec = v1alpha1.PeerCacheClusterSpec{Transport: v1alpha1.TransportTCP}
		h.groups = plan.Groups(h.spec)
	})
	byTCP := func(change func(*v1alpha1.PeerCacheClusterSpec)) health {
		return with(railed(nil), func(h *health) {
			h.spec.Transport = v1alpha1.TransportTCP
			change(&h.spec)
			h.groups = plan.Groups(h.spec)
		})
	}
	tests := []struct {
		name        string
		health      health
		rails, numa string // Status/Reason
		says        []string
	}{
		{"all is well", railed(well()), "True/AllUp", "True/Aligned", []string{"6 rails of 4 nodes are up", "memory of 4 nodes"}},
		{"a rail is down", but(func(f *fleet.Fleet) {
			f.Rails = fleet.RailSum{Total: 6, Up: 5, MembersWithSomeDown: 1,
				FirstDown: []fleet.RailsDown{{ID: "gpu-1.numa0", Rails: 2, RailsUp: 1, Rail: "mlx5_3 port 1"}}}
		}), "False/RailsDown", "True/Aligned", []string{"1 of 6 rails are down, on 1 nodes: gpu-1.numa0: mlx5_3 port 1 (1 of 2 up).", "doctor"}},
		{"many are down", but(func(f *fleet.Fleet) {
			f.Rails = fleet.RailSum{Total: 600, MembersWithSomeDown: 200, FirstDown: slices.Repeat([]fleet.RailsDown{{ID: "x"}}, 8)}
		}), "False/RailsDown", "True/Aligned", []string{"on 200 nodes: x", "and 197 more"}},
		{"a node has opened no rails", but(func(f *fleet.Fleet) {
			f.Rails, f.Groups[0].Rails, f.Groups[0].RailsUp = fleet.RailSum{Total: 4, Up: 4}, 2, 2
		}), "False/RailsMissing", "True/Aligned", []string{"group numa0: 2 instead of 4 on 2 nodes", "doctor"}},
		{"nodes that are not there miss no rails", but(func(f *fleet.Fleet) {
			f.Members, f.Rails, f.Groups = 2, fleet.RailSum{Total: 2, Up: 2}, f.Groups[1:]
		}), "True/AllUp", "True/Aligned", nil},
		{"threads and memory elsewhere", but(func(f *fleet.Fleet) {
			f.NUMA = fleet.Placement{Aligned: 2, Misplaced: 2, FirstMisplaced: []fleet.Misplaced{
				{ID: "gpu-1.numa0", What: fleet.ThreadsElsewhere}, {ID: "gpu-2.numa0", What: fleet.MemoryElsewhere}}}
		}), "True/AllUp", "False/Misplaced", []string{"2 of 4 nodes", "gpu-1.numa0: threads elsewhere; gpu-2.numa0: memory elsewhere.",
			"cpuManagerPolicy", "huge pages"}},
		{"some are starting", but(func(f *fleet.Fleet) { f.NUMA = fleet.Placement{Aligned: 3, Unknown: 1} }),
			"True/AllUp", "True/Aligned", []string{"1 cannot tell yet"}},
		{"the kernel does not tell", but(func(f *fleet.Fleet) { f.NUMA = fleet.Placement{Unknown: 4} }),
			"True/AllUp", "Unknown/NotKnown", []string{"4 nodes cannot tell"}},
		{"rails of a group have no NUMA node in common", but(func(f *fleet.Fleet) { f.NUMA = fleet.Placement{NotApplicable: 4} }),
			"True/AllUp", "True/NotApplicable", []string{"layout: PerNUMA"}},
		{"no host answers", railed(nil), "Unknown/NotHeard", "Unknown/NotHeard", []string{"NetworkPolicy"}},
		{"no node runs", with(railed(nil), func(h *health) { h.running = false }), "Unknown/NoNodes", "Unknown/NoNodes", nil},
		{"only planned", with(railed(well()), func(h *health) { h.planned = true }), "Unknown/PlanOnly", "Unknown/PlanOnly", nil},
		{"TCP, whoever answers", overTCP, "True/NotApplicable", "True/NotApplicable", []string{"TCP"}},
		{"TCP, with rails all the same", byTCP(func(*v1alpha1.PeerCacheClusterSpec) {}), "False/RailsUnused", "Unknown/NotHeard",
			[]string{"over the pod network, so these rails carry none: a and b of group numa0; c of group numa1. For RDMA write transport: Auto",
				"write interface: rail0 at one of each group's rails", "discovery.interface: rail0"}},
		{"TCP, over the network of some rails", byTCP(func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Discovery.Interface, s.Rails[0].Interface, s.Rails[2].Interface = "fast", "fast", "fast"
		}), "False/RailsUnused", "Unknown/NotHeard", []string{"at fast, which discovery.interface names, so these rails carry none: " +
			"b of group numa0. ", "for TCP remove these rails"}},
		{"TCP, over the network of every rail", byTCP(func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Discovery.Interface, s.Rails[0].Interface, s.Rails[2].Interface = "fast", "fast", "fast"
			s.Rails = slices.Delete(s.Rails, 1, 2)
		}), "True/NotApplicable", "Unknown/NotHeard", nil},
		{"TCP, over the machine's network", byTCP(func(s *v1alpha1.PeerCacheClusterSpec) {
			for i := range s.Rails {
				s.Rails[i].Attachment = v1alpha1.AttachmentHostNetwork
			}
		}), "True/NotApplicable", "Unknown/NotHeard", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := test.health.conditions(nil)
			var said []string
			for i, want := range []string{"RailsHealthy=" + test.rails, "NUMAAligned=" + test.numa} {
				c := found[i]
				if got := c.Type + "=" + string(c.Status) + "/" + c.Reason; got != want {
					t.Errorf("got %s (%s), want %s", got, c.Message, want)
				}
				if c.Message == "" || len(c.Message) > 4096 || !conditionReason.MatchString(c.Reason) {
					t.Errorf("%s would be refused: %+v", c.Type, c)
				}
				said = append(said, c.Message)
			}
			messages := strings.Join(said, "\n")
			for _, text := range test.says {
				if !strings.Contains(messages, text) {
					t.Errorf("messages are\n%s\nlacking %q", messages, text)
				}
			}
		})
	}
}

func TestHealthWarns(t *testing.T) {
	for _, kind := range []string{v1alpha1.ConditionRailsHealthy, v1alpha1.ConditionNUMAAligned} {
		if eventType(is(kind, metav1.ConditionFalse, "X", "")) != "Warning" || eventType(is(kind, metav1.ConditionUnknown, "X", "")) != "Normal" {
			t.Errorf("%s: False is a warning, Unknown is none", kind)
		}
	}
}

func TestHeldConditionsStand(t *testing.T) {
	waiting := railed(nil)
	waiting.heard.hold = true
	if found := waiting.conditions(nil); len(found) != 2 || found[0].Status != metav1.ConditionUnknown {
		t.Errorf("a new cluster has %+v", found)
	}
	before := []metav1.Condition{is(v1alpha1.ConditionRailsHealthy, metav1.ConditionFalse, "RailsDown", "")}
	if found := waiting.conditions(before); len(found) != 1 || found[0].Type != v1alpha1.ConditionNUMAAligned {
		t.Errorf("after a restart of the operator conditions are thrown away: %+v", found)
	}
}

func TestMemory(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	m := &memory{}
	if got := m.recall(at(0)); !got.hold || got.fleet != nil {
		t.Errorf("before the first answer: %+v", got)
	}
	if got := m.recall(at(60)); got.hold || got.fleet != nil {
		t.Errorf("a minute without any answer: %+v", got)
	}
	m.hear(well(), at(61))
	m.hear(nil, at(70))
	if got := m.recall(at(120)); got.fleet == nil || got.hold {
		t.Errorf("59 s after an answer: %+v", got)
	}
	if got := m.recall(at(121)); got.fleet != nil || got.hold {
		t.Errorf("60 s after an answer: %+v", got)
	}
}

func TestShowHealth(t *testing.T) {
	groups := func() []v1alpha1.GroupStatus {
		return []v1alpha1.GroupStatus{{Name: "numa0", Desired: 3}, {Name: "numa1", Desired: 3}}
	}
	now := time.Unix(1000, 0)
	m := &memory{}
	show := func(h health, before v1alpha1.PeerCacheClusterStatus) v1alpha1.PeerCacheClusterStatus {
		status := *before.DeepCopy()
		status.Groups = groups()
		showHealth(&status, h, before, m, now)
		return status
	}
	heard := well()
	heard.Rails.Up, heard.Groups[0].RailsUp, heard.NUMA.Misplaced = 5, 3, 1
	first := show(railed(heard), v1alpha1.PeerCacheClusterStatus{})
	if first.Rails != (v1alpha1.RailsStatus{Desired: 9, Ready: 5, Down: 1}) || first.NUMAMismatched != 1 || first.Engines != 8 ||
		first.HitRatioPercent == nil || *first.HitRatioPercent != 80 {
		t.Errorf("status is %+v", first)
	}
	if first.Groups[0].Rails != (v1alpha1.RailsStatus{Desired: 6, Ready: 3, Down: 1}) ||
		first.Groups[1].Rails != (v1alpha1.RailsStatus{Desired: 3, Ready: 2}) {
		t.Errorf("groups are %+v", first.Groups)
	}
	if silent := show(railed(nil), first); silent.Rails != first.Rails || silent.Groups[0].Rails != first.Groups[0].Rails ||
		silent.Engines != 8 || silent.HitRatioPercent == nil {
		t.Errorf("what was known is lost when nobody answers: %+v", silent)
	}
	gone := railed(nil)
	gone.running = false
	if none := show(gone, first); none.Rails.Ready != 0 || none.Engines != 0 || none.HitRatioPercent != nil || none.Groups[0].Rails.Ready != 0 {
		t.Errorf("without nodes the status says %+v", none)
	}
	overTCP := railed(heard)
	overTCP.spec.Transport = v1alpha1.TransportTCP
	if tcp := show(overTCP, first); tcp.Rails.Desired != 0 || tcp.Groups[0].Rails.Desired != 0 {
		t.Errorf("over TCP rails are desired: %+v", tcp)
	}
}

func TestNumbersAreQuiet(t *testing.T) {
	percent := func(n int32) *int32 { return &n }
	tests := []struct {
		name    string
		after   time.Duration // the last writing
		shown   *int32
		engines int32
		hits    uint64 // of 100
		attach  uint64
		writes  bool
	}{
		{"jitter", 30 * time.Second, percent(80), 8, 84, 9, false},
		{"jitter the other way", 30 * time.Second, percent(80), 8, 76, 7, false},
		{"jitter, a minute later", time.Minute, percent(80), 8, 81, 9, true},
		{"a fall", 5 * time.Second, percent(80), 8, 75, 8, true},
		{"a rise", 5 * time.Second, percent(80), 8, 85, 8, true},
		{"the first engine", 5 * time.Second, nil, 0, 0, 1, true},
		{"the last engine", 5 * time.Second, percent(80), 8, 80, 0, true},
		{"first reads", 30 * time.Second, nil, 8, 50, 8, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			m := &memory{numbers: now.Add(-test.after)}
			status := v1alpha1.PeerCacheClusterStatus{HitRatioPercent: test.shown, Engines: test.engines}
			showNumbers(&status, fleet.Fleet{Engines: test.attach, RecentLookedUp: 100, RecentDelivered: test.hits}, m, now)
			if wrote := m.numbers.Equal(now); wrote != test.writes {
				t.Errorf("wrote is %t", wrote)
			}
			if test.writes && (status.Engines != int32(test.attach) || *status.HitRatioPercent != int32(test.hits)) {
				t.Errorf("status is %+v", status)
			}
			if !test.writes && (status.HitRatioPercent != test.shown || status.Engines != test.engines) {
				t.Errorf("half of it was written: %+v", status)
			}
		})
	}
}
