// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

// usedSteps is how many times at most the status is written while drives fill.
const usedSteps = 20

// budgetStep is by how many percent writeBudgetSpent changes at least.
const budgetStep = 10

// hasDisk is true where nodes of some group keep pages on drives.
func (h health) hasDisk() bool {
	return slices.ContainsFunc(h.groups, func(g plan.Group) bool { return g.HasDisk(h.spec) })
}

// disksHealthy says whether the drives of running nodes are on. It does not compare their number with the spec: members inside
// SGLang pods are of the same groups and have none.
func (h health) disksHealthy() metav1.Condition {
	const kind = v1alpha1.ConditionDisksHealthy
	if !h.hasDisk() {
		return newCondition(kind, metav1.ConditionTrue, "NotApplicable", "there is no spec.disk: pages are in memory alone")
	}
	if condition := h.unknownReason(kind); condition != nil {
		return *condition
	}
	disks := h.view.Fleet.Disks
	switch off := disks.Total - disks.On; {
	case disks.Total == 0:
		return newCondition(kind, metav1.ConditionUnknown, "NoneOpened", "no member has opened a drive yet: members do so when they start with spec.disk")
	case off > 0:
		var names []string
		for _, member := range disks.FirstOff {
			names = append(names, fmt.Sprintf("%s: %s (%d of %d on)", member.ID, member.Disk, member.DisksOn, member.Disks))
		}
		return newCondition(kind, metav1.ConditionFalse, "DisksOff", fmt.Sprintf("%d of %d drives are off, on %d members: %s. Their pages are misses; "+
			"the other drives, and the memory of these members, serve. kubectl peercache disks shows why, and the folders of disk0 and so on. The member "+
			"tries a drive that has failed again by itself, every minute at least. Where you have replaced one that was in use, delete the pod",
			off, disks.Total, disks.MembersWithSomeOff, joinNames(names, disks.MembersWithSomeOff)))
	case disks.Recovering > 0:
		return newCondition(kind, metav1.ConditionTrue, "DisksRecovering", fmt.Sprintf("%d of %d drives still read which pages they have; the pages that "+
			"they know of are served", disks.Recovering, disks.Total))
	default:
		return newCondition(kind, metav1.ConditionTrue, "AllOn", fmt.Sprintf("%d drives are on", disks.Total))
	}
}

// diskStatus keeps the former value of used while it is nearly right: drives fill all the time, and each change of the status
// costs the API server a write.
func diskStatus(disks fleet.DiskSum, before *v1alpha1.DiskStatus) *v1alpha1.DiskStatus {
	if disks.Total == 0 {
		return nil
	}
	used := disks.UsedBytes
	if before != nil {
		former := uint64(max(before.Used.Value(), 0))
		if max(used, former)-min(used, former) < disks.CapacityBytes/usedSteps {
			used = min(former, disks.CapacityBytes)
		}
	}
	return &v1alpha1.DiskStatus{
		Capacity: bytesQuantity(disks.CapacityBytes), Used: bytesQuantity(used),
		Off:              int32(disks.Total - disks.On), //nolint:gosec // at most 16 for each member
		WriteBudgetSpent: budgetSpent(disks, before),
	}
}

// budgetSpent keeps the former value while it is nearly right, but says at once when all is spent.
func budgetSpent(disks fleet.DiskSum, before *v1alpha1.DiskStatus) *int32 {
	if disks.BudgetBytesADay == 0 {
		return nil
	}
	left := float64(disks.BudgetLeftBytes) / float64(disks.BudgetBytesADay)
	spent := int32(math.Round(100 * (1 - min(left, 1))))
	if before != nil && before.WriteBudgetSpent != nil && spent != 100 {
		if former := *before.WriteBudgetSpent; max(spent, former)-min(spent, former) < budgetStep {
			return &former
		}
	}
	return &spent
}

func bytesQuantity(bytes uint64) resource.Quantity {
	return *resource.NewQuantity(int64(min(bytes, math.MaxInt64)), resource.BinarySI)
}
