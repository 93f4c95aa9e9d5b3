// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

// healthWithRails returns the health of a cluster with two rails on NUMA node 0 and one on 1.
func healthWithRails(view *fleet.Fleet) health {
	rail := func(name string, node int32) v1alpha1.Rail { return v1alpha1.Rail{Name: name, NUMANode: &node} }
	spec := v1alpha1.PeerCacheClusterSpec{
		Transport: v1alpha1.TransportRDMA, Layout: v1alpha1.LayoutPerNUMA,
		Rails: []v1alpha1.Rail{rail("a", 0), rail("b", 0), rail("c", 1)},
	}
	return health{view: FleetView{Fleet: view}, running: true, spec: spec, groups: plan.Groups(spec)}
}

// healthyFleet returns the answer for two healthy machines of such a cluster.
func healthyFleet() *fleet.Fleet {
	return &fleet.Fleet{
		Members: 4, Rails: fleet.RailSum{Total: 6, Up: 6}, NUMA: fleet.Placement{Aligned: 4},
		Groups:  []fleet.GroupSum{{Name: "numa0", Members: 2, Rails: 4, RailsUp: 4}, {Name: "numa1", Members: 2, Rails: 2, RailsUp: 2}},
		Engines: 8, RecentLookedUp: 100, RecentDelivered: 80,
	}
}

func TestHealthConditions(t *testing.T) {
	but := func(change func(*fleet.Fleet)) health {
		view := healthyFleet()
		change(view)
		return healthWithRails(view)
	}
	with := func(h health, change func(*health)) health {
		change(&h)
		return h
	}
	overTCP := with(healthWithRails(nil), func(h *health) {
		h.spec = v1alpha1.PeerCacheClusterSpec{Transport: v1alpha1.TransportTCP}
		h.groups = plan.Groups(h.spec)
	})
	byTCP := func(change func(*v1alpha1.PeerCacheClusterSpec)) health {
		return with(healthWithRails(nil), func(h *health) {
			h.spec.Transport = v1alpha1.TransportTCP
			change(&h.spec)
			h.groups = plan.Groups(h.spec)
		})
	}
	tests := []struct {
		name        string
		health      health
		rails, numa string // as Status/Reason
		says        []string
	}{
		{"all is well", healthWithRails(healthyFleet()), "True/AllUp", "True/Aligned", []string{"6 rails of 4 members are up", "memory of 4 members"}},
		{"a rail is down", but(func(f *fleet.Fleet) {
			f.Rails = fleet.RailSum{Total: 6, Up: 5, MembersWithSomeDown: 1,
				FirstDown: []fleet.RailsDown{{ID: "gpu-1.numa0", Rails: 2, RailsUp: 1, Rail: "mlx5_3 port 1"}}}
		}), "False/RailsDown", "True/Aligned", []string{"1 of 6 rails are down, on 1 members: gpu-1.numa0: mlx5_3 port 1 (1 of 2 up).", "doctor"}},
		{"many are down", but(func(f *fleet.Fleet) {
			f.Rails = fleet.RailSum{Total: 600, MembersWithSomeDown: 200, FirstDown: slices.Repeat([]fleet.RailsDown{{ID: "x"}}, 8)}
		}), "False/RailsDown", "True/Aligned", []string{"on 200 members: x", "and 197 more"}},
		{"a member has opened no rails", but(func(f *fleet.Fleet) {
			f.Rails, f.Groups[0].Rails, f.Groups[0].RailsUp = fleet.RailSum{Total: 4, Up: 4}, 2, 2
		}), "False/RailsMissing", "True/Aligned", []string{"group numa0: 2 instead of 4 on 2 members", "doctor"}},
		{"pages come over TCP all the same", but(func(f *fleet.Fleet) {
			f.Activity = &fleet.Activity{Delivered: map[string]uint64{"tcp": 100, "rdma": 900}}
		}), "False/ReadsOverTCP", "True/Aligned", []string{"6 rails of 4 members are up, and pages travel by TCP", "kubectl peercache doctor", "ipam.routes"}},
		{"the first pages of a link", but(func(f *fleet.Fleet) {
			f.Activity = &fleet.Activity{Delivered: map[string]uint64{"tcp": 10, "rdma": 990}}
		}), "True/AllUp", "True/Aligned", nil},
		{"too few pages to tell", but(func(f *fleet.Fleet) {
			f.Activity = &fleet.Activity{Delivered: map[string]uint64{"tcp": 500}}
		}), "True/AllUp", "True/Aligned", nil},
		{"members without rails are read over TCP", with(but(func(f *fleet.Fleet) {
			f.Activity = &fleet.Activity{Delivered: map[string]uint64{"tcp": 1000}}
		}), func(h *health) {
			h.spec.Transport, h.spec.NodePools = v1alpha1.TransportAuto, []v1alpha1.NodePool{
				{Name: "gpu", Rails: []string{"a", "b", "c"}}, {Name: "storage"}}
		}), "True/AllUp", "True/Aligned", nil},
		{"members that are not there miss no rails", but(func(f *fleet.Fleet) {
			f.Members, f.Rails, f.Groups = 2, fleet.RailSum{Total: 2, Up: 2}, f.Groups[1:]
		}), "True/AllUp", "True/Aligned", nil},
		{"threads and memory elsewhere", but(func(f *fleet.Fleet) {
			f.NUMA = fleet.Placement{Aligned: 2, Misplaced: 2, FirstMisplaced: []fleet.Misplaced{
				{ID: "gpu-1.numa0", What: fleet.ThreadsElsewhere}, {ID: "gpu-2.numa0", What: fleet.MemoryElsewhere}}}
		}), "True/AllUp", "False/Misplaced", []string{"2 of 4 members", "gpu-1.numa0: threads elsewhere; gpu-2.numa0: memory elsewhere.",
			"cpuManagerPolicy", "huge pages"}},
		{"some are starting", but(func(f *fleet.Fleet) { f.NUMA = fleet.Placement{Aligned: 3, Unknown: 1} }),
			"True/AllUp", "True/Aligned", []string{"1 not known yet"}},
		{"the kernel does not tell", but(func(f *fleet.Fleet) { f.NUMA = fleet.Placement{Unknown: 4} }),
			"True/AllUp", "Unknown/NotKnown", []string{"4 members cannot find out"}},
		{"rails of a group have no NUMA node in common", but(func(f *fleet.Fleet) { f.NUMA = fleet.Placement{NotApplicable: 4} }),
			"True/AllUp", "True/NotApplicable", []string{"layout: PerNUMA"}},
		{"no host answers", healthWithRails(nil), "Unknown/NotHeard", "Unknown/NotHeard", []string{"NetworkPolicy"}},
		{"no member runs", with(healthWithRails(nil), func(h *health) { h.running = false }), "Unknown/NoMembers", "Unknown/NoMembers", nil},
		{"only planned", with(healthWithRails(healthyFleet()), func(h *health) { h.planned = true }), "Unknown/PlanOnly", "Unknown/PlanOnly", nil},
		{"TCP, whoever answers", overTCP, "True/NotApplicable", "True/NotApplicable", []string{"TCP"}},
		{"TCP, with rails all the same", byTCP(func(*v1alpha1.PeerCacheClusterSpec) {}), "False/RailsUnused", "Unknown/NotHeard",
			[]string{"over the pod network, so these rails carry none: a and b of group numa0; c of group numa1. For RDMA write transport: Auto",
				"write network.interface: rail0 at one of each group's rails", "discovery.interface: rail0"}},
		{"TCP, over the network of some rails", byTCP(func(s *v1alpha1.PeerCacheClusterSpec) {
			fast := &v1alpha1.RailNetwork{Name: "fast", Interface: "fast"}
			s.Discovery.Interface, s.Rails[0].Network, s.Rails[2].Network = "fast", fast, fast
		}), "False/RailsUnused", "Unknown/NotHeard", []string{"at fast, which discovery.interface names, so these rails carry none: " +
			"b of group numa0. ", "for TCP remove these rails"}},
		{"TCP, over the network of every rail", byTCP(func(s *v1alpha1.PeerCacheClusterSpec) {
			fast := &v1alpha1.RailNetwork{Name: "fast", Interface: "fast"}
			s.Discovery.Interface, s.Rails[0].Network, s.Rails[2].Network = "fast", fast, fast
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
			var reported []string
			for i, want := range []string{"RailsHealthy=" + test.rails, "NUMAAligned=" + test.numa} {
				c := found[i]
				if got := c.Type + "=" + string(c.Status) + "/" + c.Reason; got != want {
					t.Errorf("got %s (%s), want %s", got, c.Message, want)
				}
				if c.Message == "" || len(c.Message) > 4096 || !conditionReason.MatchString(c.Reason) {
					t.Errorf("%s would be refused: %+v", c.Type, c)
				}
				reported = append(reported, c.Message)
			}
			messages := strings.Join(reported, "\n")
			for _, text := range test.says {
				if !strings.Contains(messages, text) {
					t.Errorf("messages are\n%s\nlacking %q", messages, text)
				}
			}
		})
	}
}

func TestEventTypeOfHealthConditions(t *testing.T) {
	for _, kind := range []string{v1alpha1.ConditionRailsHealthy, v1alpha1.ConditionNUMAAligned, v1alpha1.ConditionDisksHealthy} {
		if eventType(newCondition(kind, metav1.ConditionFalse, "X", ""), nil) != "Warning" || eventType(newCondition(kind, metav1.ConditionUnknown, "X", ""), nil) != "Normal" {
			t.Errorf("%s: False is a warning, Unknown is none", kind)
		}
	}
}

func TestConditionsAreKeptBeforeTheFirstAnswer(t *testing.T) {
	waiting := healthWithRails(nil)
	waiting.view.Hold = true
	if found := waiting.conditions(nil); len(found) != 3 || found[0].Status != metav1.ConditionUnknown {
		t.Errorf("a new cluster has %+v", found)
	}
	before := []metav1.Condition{newCondition(v1alpha1.ConditionRailsHealthy, metav1.ConditionFalse, "RailsDown", "")}
	if found := waiting.conditions(before); len(found) != 2 || found[0].Type != v1alpha1.ConditionNUMAAligned {
		t.Errorf("after a restart of the operator conditions are thrown away: %+v", found)
	}
}

func TestSetHealth(t *testing.T) {
	groups := func() []v1alpha1.GroupStatus {
		return []v1alpha1.GroupStatus{{Name: "numa0", Desired: 3}, {Name: "numa1", Desired: 3}}
	}
	show := func(h health, before v1alpha1.PeerCacheClusterStatus) v1alpha1.PeerCacheClusterStatus {
		status := *before.DeepCopy()
		status.Groups = groups()
		setHealth(&status, h, before)
		return status
	}
	view := healthyFleet()
	view.Rails.Up, view.Groups[0].RailsUp, view.NUMA.Misplaced = 5, 3, 1
	first := show(healthWithRails(view), v1alpha1.PeerCacheClusterStatus{})
	if first.Rails != (v1alpha1.RailsStatus{Desired: 9, Ready: 5, Down: 1}) || first.NUMAMismatched != 1 {
		t.Errorf("status is %+v", first)
	}
	if first.Groups[0].Rails != (v1alpha1.RailsStatus{Desired: 6, Ready: 3, Down: 1}) ||
		first.Groups[1].Rails != (v1alpha1.RailsStatus{Desired: 3, Ready: 2}) {
		t.Errorf("groups are %+v", first.Groups)
	}
	if silent := show(healthWithRails(nil), first); silent.Rails != first.Rails || silent.Groups[0].Rails != first.Groups[0].Rails {
		t.Errorf("what was known is lost when nobody answers: %+v", silent)
	}
	gone := healthWithRails(nil)
	gone.running = false
	if none := show(gone, first); none.Rails.Ready != 0 || none.Groups[0].Rails.Ready != 0 {
		t.Errorf("without members the status says %+v", none)
	}
	overTCP := healthWithRails(view)
	overTCP.spec.Transport = v1alpha1.TransportTCP
	if tcp := show(overTCP, first); tcp.Rails.Desired != 0 || tcp.Groups[0].Rails.Desired != 0 {
		t.Errorf("over TCP rails are desired: %+v", tcp)
	}
}

// TestReadsOverTCPStays checks that the condition does not come and go with the traffic.
func TestReadsOverTCPStays(t *testing.T) {
	fleetThat := func(delivered map[string]uint64) health {
		view := healthyFleet()
		view.Activity = &fleet.Activity{Delivered: delivered}
		return healthWithRails(view)
	}
	var before []metav1.Condition
	for _, step := range []struct {
		delivered map[string]uint64
		want      string
	}{
		{map[string]uint64{"tcp": 1000}, reasonOverTCP},
		{map[string]uint64{}, reasonOverTCP},
		{map[string]uint64{"rdma": 100}, reasonOverTCP},
		{map[string]uint64{"rdma": 1000}, "AllUp"},
		{map[string]uint64{}, "AllUp"},
	} {
		before = fleetThat(step.delivered).conditions(before)
		if got := before[0].Reason; got != step.want {
			t.Errorf("after %v the reason is %s, want %s", step.delivered, got, step.want)
		}
	}
}
