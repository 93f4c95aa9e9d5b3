// SPDX-License-Identifier: Apache-2.0

package status

import (
	"math"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

// withDisks returns the health of a cluster whose second pool has drives.
func withDisks(disks *fleet.DiskSum) health {
	spec := v1alpha1.PeerCacheClusterSpec{NodePools: []v1alpha1.NodePool{{Name: "gpu"}, {Name: "storage", Disk: &v1alpha1.DiskSpec{}}}}
	h := health{running: true, spec: spec, groups: plan.Groups(spec)}
	if disks != nil {
		h.view.Fleet = &fleet.Fleet{Members: 4, Disks: *disks}
	}
	return h
}

func withoutDisks() health {
	h := withDisks(&fleet.DiskSum{Total: 4, On: 4})
	h.spec.NodePools[1].Disk = nil
	h.groups = plan.Groups(h.spec)
	return h
}

func TestDisksHealthy(t *testing.T) {
	first := fleet.DisksOff{ID: "gpu-1.default", Disks: 2, DisksOn: 1, Disk: "/var/lib/peercache/disk1"}
	planned := withDisks(&fleet.DiskSum{Total: 8, On: 8})
	planned.planned = true
	for name, test := range map[string]struct {
		health health
		want   string // as Status/Reason
		says   string
	}{
		"no disk":       {withoutDisks(), "True/NotApplicable", "no spec.disk"},
		"all is well":   {withDisks(&fleet.DiskSum{Total: 8, On: 8}), "True/AllOn", "8 drives are on"},
		"after a start": {withDisks(&fleet.DiskSum{Total: 8, On: 8, Recovering: 3}), "True/DisksRecovering", "3 of 8 drives still read"},
		"one is off": {withDisks(&fleet.DiskSum{Total: 8, On: 7, Recovering: 3, MembersWithSomeOff: 1, FirstOff: []fleet.DisksOff{first}}),
			"False/DisksOff", "1 of 8 drives are off, on 1 members: gpu-1.default: /var/lib/peercache/disk1 (1 of 2 on)."},
		"many are off": {withDisks(&fleet.DiskSum{Total: 800, MembersWithSomeOff: 400, FirstOff: slices.Repeat([]fleet.DisksOff{first}, 8)}),
			"False/DisksOff", "and 397 more"},
		"of an earlier release": {withDisks(&fleet.DiskSum{}), "Unknown/NoneOpened", "when they start with spec.disk"},
		"no host answers":       {withDisks(nil), "Unknown/NotHeard", "NetworkPolicy"},
		"only planned":          {planned, "Unknown/PlanOnly", ""},
	} {
		got := test.health.disksHealthy()
		if state := string(got.Status) + "/" + got.Reason; state != test.want || !strings.Contains(got.Message, test.says) || len(got.Message) > 4096 {
			t.Errorf("%s: got %s (%s), want %s, saying %q", name, state, got.Message, test.want, test.says)
		}
	}
}

func TestDiskStatus(t *testing.T) {
	const ti = 1 << 40
	show := func(h health, before v1alpha1.PeerCacheClusterStatus) v1alpha1.PeerCacheClusterStatus {
		status := *before.DeepCopy()
		setHealth(&status, h, before)
		return status
	}
	says := func(status v1alpha1.PeerCacheClusterStatus, capacity, used string, off int32) {
		t.Helper()
		if d := status.Disk; d == nil || d.Capacity.String() != capacity || d.Used.String() != used || d.Off != off {
			t.Errorf("the status is %+v, want %s of %s and %d off", d, used, capacity, off)
		}
	}
	first := show(withDisks(&fleet.DiskSum{Total: 4, On: 3, UsedBytes: ti, CapacityBytes: 20 * ti}), v1alpha1.PeerCacheClusterStatus{})
	says(first, "20Ti", "1Ti", 1)
	says(show(withDisks(&fleet.DiskSum{Total: 4, On: 4, UsedBytes: 2*ti - 1, CapacityBytes: 20 * ti}), first), "20Ti", "1Ti", 0)
	says(show(withDisks(&fleet.DiskSum{Total: 4, On: 4, UsedBytes: 1, CapacityBytes: 20 * ti}), first), "20Ti", "1Ti", 0)
	says(show(withDisks(&fleet.DiskSum{Total: 4, On: 4, UsedBytes: 2 * ti, CapacityBytes: 20 * ti}), first), "20Ti", "2Ti", 0)
	says(show(withDisks(&fleet.DiskSum{Total: 4, On: 4, CapacityBytes: 20 * ti}), first), "20Ti", "0", 0)
	says(show(withDisks(nil), first), "20Ti", "1Ti", 1)

	spent := func(of, left uint64, former *int32) *int32 {
		before := v1alpha1.PeerCacheClusterStatus{Disk: &v1alpha1.DiskStatus{WriteBudgetSpent: former}}
		return show(withDisks(&fleet.DiskSum{Total: 4, On: 4, BudgetBytesADay: of, BudgetLeftBytes: left}), before).Disk.WriteBudgetSpent
	}
	for _, row := range []struct {
		of, left     uint64
		former, want *int32
	}{
		{0, 0, nil, nil},
		{0, 0, ptr.To[int32](50), nil},
		{1000, 1000, nil, ptr.To[int32](0)},
		{1000, 250, nil, ptr.To[int32](75)},
		{1000, 250, ptr.To[int32](70), ptr.To[int32](70)},
		{1000, 250, ptr.To[int32](65), ptr.To[int32](75)},
		{1000, 0, ptr.To[int32](95), ptr.To[int32](100)},
		{1000, 30, ptr.To[int32](100), ptr.To[int32](100)},
		{math.MaxUint64, math.MaxUint64, nil, ptr.To[int32](0)},
	} {
		if got := spent(row.of, row.left, row.former); !ptr.Equal(got, row.want) {
			t.Errorf("%d of %d left, %v before: %v, want %v", row.left, row.of, ptr.Deref(row.former, -1), ptr.Deref(got, -1), ptr.Deref(row.want, -1))
		}
	}

	gone := withDisks(nil)
	gone.running = false
	for name, h := range map[string]health{"no member runs": gone, "no disk is wanted": withoutDisks(), "none is open": withDisks(&fleet.DiskSum{})} {
		if status := show(h, first); status.Disk != nil {
			t.Errorf("%s: the status is %+v", name, status.Disk)
		}
	}
}
