// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestGroups(t *testing.T) {
	rail := func(name, group string, numa ...int32) v1alpha1.Rail {
		r := v1alpha1.Rail{Name: name, Group: group}
		if len(numa) > 0 {
			r.NUMANode = &numa[0]
		}
		return r
	}
	tests := []struct {
		name   string
		layout v1alpha1.Layout
		rails  []v1alpha1.Rail
		want   string // as "group:rail,rail group:rail"
	}{
		{"no rails", v1alpha1.LayoutPerNUMA, nil, "default:"},
		{"no rails, per rail", v1alpha1.LayoutPerRail, nil, "default:"},
		{"per NUMA", v1alpha1.LayoutPerNUMA,
			[]v1alpha1.Rail{rail("c", "", 1), rail("b", "", 0), rail("a", "", 1)}, "numa0:b numa1:a,c"},
		{"per NUMA without NUMA nodes", v1alpha1.LayoutPerNUMA,
			[]v1alpha1.Rail{rail("b", ""), rail("a", "")}, "default:a,b"},
		{"per rail", v1alpha1.LayoutPerRail, []v1alpha1.Rail{rail("b", ""), rail("a", "")}, "a:a b:b"},
		{"per node", v1alpha1.LayoutPerNode, []v1alpha1.Rail{rail("b", ""), rail("a", "")}, "default:a,b"},
		{"a named group wins", v1alpha1.LayoutPerRail,
			[]v1alpha1.Rail{rail("a", "fast"), rail("b", ""), rail("c", "fast")}, "b:b fast:a,c"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, group := range Groups(v1alpha1.PeerCacheClusterSpec{Layout: test.layout, Rails: test.rails}) {
				var names []string
				for _, rail := range group.Rails {
					names = append(names, rail.Name)
				}
				got = append(got, group.Name+":"+strings.Join(names, ","))
			}
			if joined := strings.Join(got, " "); joined != test.want {
				t.Errorf("got %q, want %q", joined, test.want)
			}
		})
	}
}

func TestGroupOrderDoesNotDependOnSpecOrder(t *testing.T) {
	forward := []v1alpha1.Rail{shared("a", 0), shared("b", 0), shared("c", 1)}
	backward := []v1alpha1.Rail{forward[2], forward[1], forward[0]}
	for i := range 2 {
		one := mustPlan(t, testCluster(withRails(v1alpha1.TransportRDMA, forward...)))
		two := mustPlan(t, testCluster(withRails(v1alpha1.TransportRDMA, backward...)))
		if !equality.Semantic.DeepEqual(one.DaemonSets[i], two.DaemonSets[i]) {
			t.Errorf("DaemonSet %s depends on the order of rails", one.DaemonSets[i].Name)
		}
	}
}

func inGroup(group string, rail v1alpha1.Rail) v1alpha1.Rail {
	rail.Group = group
	return rail
}

func withInterface(name, pod string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Network: &v1alpha1.RailNetwork{Name: "net", Interface: pod}}
}

func byClaim(name, template, request string) v1alpha1.Rail {
	return v1alpha1.Rail{
		Name: name, Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: template, Request: request},
	}
}

func TestProblems(t *testing.T) {
	tests := []struct {
		name   string
		rails  []v1alpha1.Rail
		reason string
		says   string
	}{
		{"one group on the host", []v1alpha1.Rail{onHost("a", "g", "mlx5_0"), onHost("b", "g", "mlx5_1")}, "", ""},
		{"one of two groups on the host", []v1alpha1.Rail{onHost("a", "g", "mlx5_0"), shared("b", 0)}, "", ""},
		{"two groups on the host", []v1alpha1.Rail{onHost("a", "g", "mlx5_0"), onHost("b", "h", "mlx5_1")},
			"HostPortConflict", `groups "g" and "h"`},
		{"a group half on the host",
			[]v1alpha1.Rail{onHost("a", "g", "mlx5_0"), {Name: "b", Group: "g", Attachment: v1alpha1.AttachmentSRIOV}},
			"MixedAttachments", `rail "a" another rails[].group`},
		{"a rail of an earlier release", []v1alpha1.Rail{shared("a", 0), {Name: "b", NUMANode: new(int32(0)), Attachment: v1alpha1.AttachmentSRIOV}},
			"RailIncomplete", `rail "b" has attachment SRIOV, but not its settings`},
		{"interfaces of different names", []v1alpha1.Rail{withInterface("a", "net1"), withInterface("b", "net2")}, "", ""},
		{"one interface in two pods", []v1alpha1.Rail{inGroup("g", withInterface("a", "net1")),
			inGroup("h", withInterface("b", "net1"))}, "", ""},
		{"two interfaces of one name", []v1alpha1.Rail{withInterface("a", "net1"), withInterface("b", "net1")},
			"InterfaceConflict", `rails "a" and "b" of group "default" both ask for net1 in one pod: give one of them ` +
				"another interface"},
		{"two interfaces of one MAC", []v1alpha1.Rail{{Name: "a", Network: &v1alpha1.RailNetwork{MAC: "02:00:00:00:00:01"}},
			{Name: "b", Network: &v1alpha1.RailNetwork{MAC: "02:00:00:00:00:01"}}}, "InterfaceConflict", "another mac"},
		{"two interfaces of one address", []v1alpha1.Rail{{Name: "a", Network: &v1alpha1.RailNetwork{IPs: []string{"10.1.0.1/24", "10.1.0.2/24"}}},
			{Name: "b", Network: &v1alpha1.RailNetwork{IPs: []string{"10.1.0.2/24"}}}}, "InterfaceConflict", "another ips"},
		{"requests of one claim", []v1alpha1.Rail{byClaim("a", "t", "x"), byClaim("b", "t", "y")}, "", ""},
		{"a claim each", []v1alpha1.Rail{byClaim("a", "t", ""), byClaim("b", "t", "")}, "", ""},
		{"one request twice", []v1alpha1.Rail{byClaim("a", "t", "x"), byClaim("b", "t", "x")},
			"RequestConflict", "name a request of its own for each rail"},
		{"one request of two rails", []v1alpha1.Rail{byClaim("a", "t", "x"), byClaim("b", "t", "")},
			"RequestMissing", "To share one claim, set request on both"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := For(testCluster(withRails(v1alpha1.TransportRDMA, test.rails...)), testFacts)
			if test.reason == "" {
				if err != nil {
					t.Fatalf("got %v, want a plan", err)
				}
				return
			}
			if err == nil {
				t.Fatal("got a plan, want a problem")
			}
			if text := err.Error(); !strings.HasPrefix(text, test.reason+": ") || !strings.Contains(text, test.says) {
				t.Errorf("got %q, want %s saying %q", text, test.reason, test.says)
			}
		})
	}
}

func reachedAtInterface(name string) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Interface = name }
}

func TestEveryNodeHasTheInterfaceAtWhichItIsReached(t *testing.T) {
	storage := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.NodePools = []v1alpha1.NodePool{{Name: "gpu", Selector: map[string]string{"a": "b"}, Rails: []string{"a"}},
			{Name: "storage", Selector: map[string]string{"a": "c"}}}
	}
	for _, test := range []struct {
		name, says string
		changes    []func(*v1alpha1.PeerCacheClusterSpec)
	}{
		{"its rail's", "", []func(*v1alpha1.PeerCacheClusterSpec){withRails(v1alpha1.TransportTCP, withInterface("a", "fast"))}},
		{"the machine's", "", []func(*v1alpha1.PeerCacheClusterSpec){withRails(v1alpha1.TransportRDMA, onHost("a", "g", "mlx5_0"))}},
		{"no rail's", `members of group "default" have no interface "fast"`, nil},
		{"another rail's", "write network.interface: fast at one", []func(*v1alpha1.PeerCacheClusterSpec){
			withRails(v1alpha1.TransportTCP, withInterface("a", "net1"))}},
		{"of some groups", `members of group "h"`, []func(*v1alpha1.PeerCacheClusterSpec){withRails(v1alpha1.TransportTCP,
			inGroup("g", withInterface("a", "fast")), inGroup("h", withInterface("b", "slow")))}},
		{"of some pools", `members of group "storage-default"`, []func(*v1alpha1.PeerCacheClusterSpec){
			withRails(v1alpha1.TransportTCP, withInterface("a", "fast")), storage}},
	} {
		_, err := For(testCluster(append(test.changes, reachedAtInterface("fast"))...), testFacts)
		if test.says == "" {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), "InterfaceMissing: ") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want it to say %q", test.name, err, test.says)
		}
	}
}

func TestNUMASockets(t *testing.T) {
	rail := func(name string, numaNode int32, group string) v1alpha1.Rail {
		r := v1alpha1.Rail{Name: name, Group: group}
		if numaNode >= 0 {
			r.NUMANode = new(numaNode)
		}
		return r
	}
	for name, test := range map[string]struct {
		rails  []v1alpha1.Rail
		layout v1alpha1.Layout
		want   string
	}{
		"no rails": {nil, v1alpha1.LayoutPerNUMA, ""},
		"a group for each NUMA node": {[]v1alpha1.Rail{rail("a", 0, ""), rail("b", 1, ""), rail("c", 1, "")}, v1alpha1.LayoutPerNUMA,
			"0=/run/peercache/numa0.sock,1=/run/peercache/numa1.sock"},
		"one NUMA node":                 {[]v1alpha1.Rail{rail("a", 1, "")}, v1alpha1.LayoutPerNUMA, ""},
		"several groups of a NUMA node": {[]v1alpha1.Rail{rail("a", 0, ""), rail("b", 0, ""), rail("c", 1, "")}, v1alpha1.LayoutPerRail, ""},
		"all rails in one group":        {[]v1alpha1.Rail{rail("a", -1, ""), rail("b", -1, "")}, v1alpha1.LayoutPerNode, ""},
		"a group whose NUMA node is not known": {[]v1alpha1.Rail{rail("a", 0, ""), rail("b", 1, ""), rail("c", -1, "other")},
			v1alpha1.LayoutPerNUMA, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := NUMASockets(v1alpha1.PeerCacheClusterSpec{Rails: test.rails, Layout: test.layout})
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
