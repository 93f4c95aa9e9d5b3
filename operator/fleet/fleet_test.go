// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"math"
	"net/http"
	"reflect"
	"testing"
)

// fleetJSON has every field of Fleet as peercached writes it.
const fleetJSON = `{
  "node": {"id": "gpu-1.numa0", "group": "numa0", "state": "active"},
  "members": [{"id": "gpu-1.numa0", "state": "active", "health": {"age_seconds": 0.25, "group": "numa0", "rails": 8,
    "rails_up": 7, "rail_down": "mlx5_3 port 1", "numa": "memory_elsewhere", "engines": 2, "recent_looked_up": 10, "recent_delivered": 9,
    "pool_used_bytes": 18446744073709551615}}],
  "fleet": {
    "warming": false, "members": 4, "states": {"active": 4, "draining": 0, "joining": 0},
    "rails": {"total": 16, "up": 15, "members_with_some_down": 1,
      "first_down": [{"id": "gpu-2.numa0", "rails": 8, "rails_up": 7, "rail": "mlx5_3 port 1"}]},
    "disks": {"total": 8, "on": 7, "recovering": 2, "members_with_some_off": 1,
      "first_off": [{"id": "gpu-2.numa0", "disks": 2, "disks_on": 1, "disk": "/var/lib/peercache/disk1"}],
      "used_bytes": 6, "capacity_bytes": 18446744073709551615},
    "numa": {"aligned": 1, "misplaced": 1, "not_applicable": 1, "unknown": 1,
      "first_misplaced": [{"id": "gpu-2.numa0", "what": "memory_elsewhere"}]},
    "groups": [{"name": "numa0", "members": 4, "rails": 16, "rails_up": 15}],
    "engines": 3, "recent_looked_up": 18446744073709551615, "recent_delivered": 7,
    "latest_looked_up": 600, "latest_delivered": 6,
    "pool": {"used_bytes": 5, "capacity_bytes": 18446744073709551615}
  }
}`

func TestAskReturnsTheFleet(t *testing.T) {
	host := node(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(fleetJSON)) })
	member := node(t, answering("b", "b=active"))
	answers, err := NewClient().Ask(t.Context(), []string{host, member})
	if err != nil {
		t.Fatalf("Ask: %v", err)
	}
	want := &Fleet{
		Members: 4,
		Rails: RailSum{Total: 16, Up: 15, MembersWithSomeDown: 1,
			FirstDown: []RailsDown{{ID: "gpu-2.numa0", Rails: 8, RailsUp: 7, Rail: "mlx5_3 port 1"}}},
		Disks: DiskSum{Total: 8, On: 7, Recovering: 2, MembersWithSomeOff: 1,
			FirstOff:  []DisksOff{{ID: "gpu-2.numa0", Disks: 2, DisksOn: 1, Disk: "/var/lib/peercache/disk1"}},
			UsedBytes: 6, CapacityBytes: math.MaxUint64},
		NUMA: Placement{Aligned: 1, Misplaced: 1, NotApplicable: 1, Unknown: 1,
			FirstMisplaced: []Misplaced{{ID: "gpu-2.numa0", What: MemoryElsewhere}}},
		Groups:  []GroupSum{{Name: "numa0", Members: 4, Rails: 16, RailsUp: 15}},
		Engines: 3, RecentLookedUp: math.MaxUint64, RecentDelivered: 7, LatestLookedUp: 600, LatestDelivered: 6,
		Pool: PoolSum{UsedBytes: 5, CapacityBytes: math.MaxUint64},
	}
	if got := answers[0].Fleet; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	health := &Health{
		AgeSeconds: 0.25, Group: "numa0", Rails: 8, RailsUp: 7, RailDown: "mlx5_3 port 1", NUMA: MemoryElsewhere, Engines: 2,
		RecentLookedUp: 10, RecentDelivered: 9, PoolUsedBytes: math.MaxUint64,
	}
	if got := answers[0].Members[0].Health; !reflect.DeepEqual(got, health) {
		t.Errorf("the member says %+v, want %+v", got, health)
	}
	if answers[1].Members[0].Health != nil {
		t.Errorf("a node that hosts no discovery has heard %+v", answers[1].Members[0].Health)
	}
	if answers[1].Fleet != nil {
		t.Errorf("a node that hosts no discovery has a fleet: %+v", answers[1].Fleet)
	}
}

func TestMostComplete(t *testing.T) {
	host := func(members int, warming bool) NodeStatus {
		return NodeStatus{Fleet: &Fleet{Members: members, Warming: warming}}
	}
	tests := []struct {
		name    string
		answers []NodeStatus
		want    int // the number of members, or -1 where it is unknown
	}{
		{"no answer", nil, -1},
		{"no host among them", []NodeStatus{{}}, -1},
		{"a host that has just started", []NodeStatus{host(5, true)}, -1},
		{"the one that knows most", []NodeStatus{host(3, false), host(4, false), host(9, true), {}}, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := -1
			if whole := MostComplete(test.answers); whole != nil {
				got = whole.Members
			}
			if got != test.want {
				t.Errorf("got %d members, want %d", got, test.want)
			}
		})
	}
}

func TestEnginesAt(t *testing.T) {
	host := NodeStatus{Fleet: &Fleet{Members: 2}, Members: []Member{{ID: "a.default", Health: &Health{Engines: 3}}, {ID: "b.default"}}}
	warming := NodeStatus{Fleet: &Fleet{Members: 9, Warming: true}, Members: []Member{{ID: "a.default", Health: &Health{Engines: 7}}}}
	if got := EnginesAt([]NodeStatus{{}, warming, host}); len(got) != 1 || got["a.default"] != 3 {
		t.Errorf("got %v", got)
	}
	if got := EnginesAt([]NodeStatus{warming}); got != nil {
		t.Errorf("of a host that is warming: %v", got)
	}
}

func TestHitPercent(t *testing.T) {
	tests := []struct {
		reads, hits uint64
		want        int32
		known       bool
	}{
		{0, 0, 0, false}, {1, 0, 0, true}, {1, 1, 100, true}, {3, 2, 67, true}, {1000, 4, 0, true}, {1000, 5, 1, true},
		{math.MaxUint64, math.MaxUint64, 100, true}, {10, 20, 100, true},
	}
	for _, test := range tests {
		fleet := Fleet{RecentLookedUp: test.reads, RecentDelivered: test.hits}
		if got, known := fleet.HitPercent(); got != test.want || known != test.known {
			t.Errorf("%d of %d: got %d %t, want %d %t", test.hits, test.reads, got, known, test.want, test.known)
		}
	}
}

func TestLatestHitPercent(t *testing.T) {
	tests := []struct {
		lookedUp, delivered uint64
		want                int32
		known               bool
	}{
		{0, 0, 0, false}, {minLatestPages - 1, 0, 0, false}, {minLatestPages, 0, 0, true}, {1000, 505, 51, true},
	}
	for _, test := range tests {
		fleet := Fleet{LatestLookedUp: test.lookedUp, LatestDelivered: test.delivered}
		if got, known := fleet.LatestHitPercent(); got != test.want || known != test.known {
			t.Errorf("%d of %d: got %d %t, want %d %t", test.delivered, test.lookedUp, got, known, test.want, test.known)
		}
	}
}

// TestCountersOfEarlierReleasesGiveNoHitRatio: nodes of earlier releases count reads, of which nearly all hit.
func TestCountersOfEarlierReleasesGiveNoHitRatio(t *testing.T) {
	var status NodeStatus
	earlier := `{"fleet": {"members": 3, "recent_reads": 1000, "recent_hits": 990}}`
	if err := json.Unmarshal([]byte(earlier), &status); err != nil {
		t.Fatal(err)
	}
	if percent, known := status.Fleet.HitPercent(); known {
		t.Errorf("got %d %%", percent)
	}
}

func TestFleetWithMissingFields(t *testing.T) {
	var status NodeStatus
	if err := json.Unmarshal([]byte(`{"fleet": {}}`), &status); err != nil || status.Fleet == nil {
		t.Fatalf("got %+v, %v", status, err)
	}
}
