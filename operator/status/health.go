// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

// health is what the running nodes report, beside what the spec asks of them.
type health struct {
	view    FleetView
	running bool // at least one node exists
	planned bool // in mode Plan
	groups  []plan.Group
	spec    v1alpha1.PeerCacheClusterSpec
}

func healthOf(seen *Observed) health {
	return health{
		view: seen.Fleet, running: len(seen.Pods) > 0, planned: seen.Planned != nil,
		groups: plan.Groups(seen.Cluster.Spec), spec: seen.Cluster.Spec,
	}
}

// railsPerNode maps a group's name to the number of rails that each of its nodes opens.
func (h health) railsPerNode() map[string]int {
	rails := map[string]int{}
	for _, group := range h.groups {
		rails[group.FullName()] = group.OpenRails(h.spec)
	}
	return rails
}

// conditions are RailsHealthy, NUMAAligned and DisksHealthy. A condition that would become NotHeard is left out, and so kept, while
// an answer may still come.
func (h health) conditions(before []metav1.Condition) []metav1.Condition {
	var found []metav1.Condition
	rails := h.railsHealthy(meta.FindStatusCondition(before, v1alpha1.ConditionRailsHealthy))
	for _, condition := range []metav1.Condition{rails, h.numaAligned(), h.disksHealthy()} {
		waits := condition.Reason == reasonNotHeard && h.view.Hold
		if waits && meta.FindStatusCondition(before, condition.Type) != nil {
			continue
		}
		found = append(found, condition)
	}
	return found
}

const reasonNotHeard = "NotHeard"

// unknownReason is the condition of a type while the nodes' health is not known; nil when it is known.
func (h health) unknownReason(kind string) *metav1.Condition {
	var condition metav1.Condition
	switch {
	case h.planned:
		condition = newCondition(kind, metav1.ConditionUnknown, ReasonPlanOnly, "mode: Plan creates nothing")
	case !h.running:
		condition = newCondition(kind, metav1.ConditionUnknown, "NoMembers", "no member runs")
	case h.view.Fleet == nil:
		condition = newCondition(kind, metav1.ConditionUnknown, reasonNotHeard, "no discovery host has answered the operator for a "+
			"minute: if conditions Ready and Degraded name no cause, let the operator connect to spec.monitoring.port of the members "+
			"(NetworkPolicy)")
	default:
		return nil
	}
	return &condition
}

// railsHealthy says whether the rails of running nodes are up, as many as the spec names, and carry the pages.
func (h health) railsHealthy(before *metav1.Condition) metav1.Condition {
	const kind = v1alpha1.ConditionRailsHealthy
	perNode, rdma := h.railsPerNode(), false
	for _, rails := range perNode {
		rdma = rdma || rails > 0
	}
	if !rdma {
		return h.railsOverTCP()
	}
	if condition := h.unknownReason(kind); condition != nil {
		return *condition
	}
	rails := h.view.Fleet.Rails
	if down := rails.Total - rails.Up; down > 0 {
		var names []string
		for _, member := range rails.FirstDown {
			names = append(names, fmt.Sprintf("%s: %s (%d of %d up)", member.ID, member.Rail, member.RailsUp, member.Rails))
		}
		return newCondition(kind, metav1.ConditionFalse, "RailsDown", fmt.Sprintf("%d of %d rails are down, on %d members: %s. Their pages travel by "+
			"the other rails or by TCP: check the port, its cable and its switch (rdma link, ibstat), and run peercached doctor in "+
			"the member's pod", down, rails.Total, rails.MembersWithSomeDown, joinNames(names, rails.MembersWithSomeDown)))
	}
	var missing []string
	for _, group := range h.view.Fleet.Groups {
		if want := perNode[group.Name] * group.Members; group.Rails < want {
			missing = append(missing, fmt.Sprintf("group %s: %d instead of %d on %d members", group.Name, group.Rails, want, group.Members))
		}
	}
	if len(missing) > 0 {
		return newCondition(kind, metav1.ConditionFalse, "RailsMissing", fmt.Sprintf("members have opened fewer rails than the spec names: %s. "+
			"transport in /v1/status of a member has the reason, and peercached doctor in its pod the remedy",
			joinNames(missing, len(missing))))
	}
	if h.readsOverTCP(before) {
		return newCondition(kind, metav1.ConditionFalse, reasonOverTCP, fmt.Sprintf("%d rails of %d members are up, and pages travel by TCP "+
			"anyway: kubectl peercache doctor names the members. Rails of different groups may have no routes to each other "+
			"(provision.networks[].ipam.routes, or layout: PerNode), or a switch drops their packets", rails.Up, h.view.Fleet.Members))
	}
	return newCondition(kind, metav1.ConditionTrue, "AllUp", fmt.Sprintf("%d rails of %d members are up", rails.Up, h.view.Fleet.Members))
}

const reasonOverTCP = "ReadsOverTCP"

// readsOverTCP is true where members have rails and read from each other over TCP. While they read too little to tell, it stays
// what it was.
func (h health) readsOverTCP(before *metav1.Condition) bool {
	overTCP, known := h.view.Fleet.Activity.OverTCP()
	if !known {
		overTCP = before != nil && before.Reason == reasonOverTCP
	}
	return overTCP && plan.OnlyRDMA(h.spec)
}

// railsOverTCP names the rails that the spec defines but that carry no pages over TCP. Nodes serve all the same: a user
// may have chosen TCP for a while, to tell a fault of the fabric from others.
func (h health) railsOverTCP() metav1.Condition {
	const kind = v1alpha1.ConditionRailsHealthy
	var unused []string
	for _, group := range h.groups {
		var names []string
		for _, rail := range group.Unused(h.spec) {
			names = append(names, rail.Name)
		}
		if len(names) > 0 {
			unused = append(unused, fmt.Sprintf("%s of group %s", strings.Join(names, " and "), group.FullName()))
		}
	}
	if len(unused) == 0 {
		return newCondition(kind, metav1.ConditionTrue, "NotApplicable", "pages travel by TCP, which opens no rails")
	}
	where, fix := "over the pod network", "write network.interface: rail0 at one of each group's rails, and "+
		"discovery.interface: rail0 for pages to travel there"
	if reached := h.spec.Discovery.Interface; reached != "" {
		where, fix = "at "+reached+", which discovery.interface names", "remove these rails"
	}
	return newCondition(kind, metav1.ConditionFalse, "RailsUnused", fmt.Sprintf("with transport: TCP pages travel %s, so these rails carry none: "+
		"%s. For RDMA write transport: Auto; for TCP %s", where, joinNames(unused, len(unused)), fix))
}

// numaAligned says whether threads and memory of running nodes are on the NUMA node of their rails.
func (h health) numaAligned() metav1.Condition {
	const kind = v1alpha1.ConditionNUMAAligned
	near := false
	for _, group := range h.groups {
		near = near || group.NearNUMA(h.spec)
	}
	if !near {
		return newCondition(kind, metav1.ConditionTrue, "NotApplicable", "there are no rails to be near to")
	}
	if condition := h.unknownReason(kind); condition != nil {
		return *condition
	}
	numa := h.view.Fleet.NUMA
	switch {
	case numa.Misplaced > 0:
		var names []string
		for _, member := range numa.FirstMisplaced {
			names = append(names, fmt.Sprintf("%s: %s", member.ID, strings.ReplaceAll(member.What, "_", " ")))
		}
		return newCondition(kind, metav1.ConditionFalse, "Misplaced", fmt.Sprintf("%d of %d members are far from their rails: %s. %s; see numa in "+
			"/v1/status of the member", numa.Misplaced, h.view.Fleet.Members, joinNames(names, numa.Misplaced),
			strings.Join(numaRemedies(numa.FirstMisplaced), "; ")))
	case numa.Aligned > 0:
		message := fmt.Sprintf("threads and memory of %d members are on the NUMA node of their rails", numa.Aligned)
		if numa.Unknown > 0 {
			message += fmt.Sprintf("; %d not known yet", numa.Unknown)
		}
		return newCondition(kind, metav1.ConditionTrue, "Aligned", message)
	case numa.Unknown > 0:
		return newCondition(kind, metav1.ConditionUnknown, "NotKnown", fmt.Sprintf("%d members cannot find out where their memory is: see numa in "+
			"/v1/status of a member", numa.Unknown))
	default:
		return newCondition(kind, metav1.ConditionTrue, "NotApplicable", "no member has rails that share one NUMA node: with layout: PerNUMA and "+
			"rails[].numaNode every group has one")
	}
}

// numaRemedies names a remedy for threads and for memory, as far as either is misplaced.
func numaRemedies(misplaced []fleet.Misplaced) []string {
	var threads, memory bool
	for _, member := range misplaced {
		threads = threads || member.What == fleet.ThreadsElsewhere
		memory = memory || member.What == fleet.MemoryElsewhere
	}
	var remedies []string
	if threads {
		remedies = append(remedies, "for threads, let the kubelet give the pod cores of that NUMA node (cpuManagerPolicy: static and "+
			"topologyManagerPolicy: single-numa-node, and a device plugin that reports the NUMA node of a rail), or shared ones (resources.cpu that "+
			"is not a whole number, such as 3500m)")
	}
	if memory {
		remedies = append(remedies, "for memory, reserve huge pages on that NUMA node, or lower memory.pool to what it has")
	}
	return remedies
}

// joinNames joins the first few names; total is how many there are altogether.
func joinNames(names []string, total int) string {
	if len(names) > maxFaults {
		names = names[:maxFaults]
	}
	text := strings.Join(names, "; ")
	if more := total - len(names); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// setHealth writes what the nodes report into the status. Values that are not known keep those of before.
func setHealth(status *v1alpha1.PeerCacheClusterStatus, h health, before v1alpha1.PeerCacheClusterStatus) {
	perNode := h.railsPerNode()
	status.Rails.Desired = 0
	for i := range status.Groups {
		group := &status.Groups[i]
		for _, old := range before.Groups {
			if old.Name == group.Name {
				group.Rails = old.Rails
			}
		}
		group.Rails.Desired = group.Desired * int32(perNode[group.Name]) //nolint:gosec // at most 32 rails
		status.Rails.Desired += group.Rails.Desired
	}
	if !h.running || !h.hasDisk() {
		status.Disk = nil
	}
	if !h.running {
		clearHealth(status)
		return
	}
	if h.view.Fleet == nil {
		return
	}
	view := *h.view.Fleet
	status.Rails.Ready, status.Rails.Down = railCounts(view.Rails.Total, view.Rails.Up)
	for i := range status.Groups {
		group := &status.Groups[i]
		group.Rails.Ready, group.Rails.Down = 0, 0
		for _, reported := range view.Groups {
			if reported.Name == group.Name {
				group.Rails.Ready, group.Rails.Down = railCounts(reported.Rails, reported.RailsUp)
			}
		}
	}
	status.NUMAMismatched = int32(view.NUMA.Misplaced) //nolint:gosec // at most as many as members
	if h.hasDisk() {
		status.Disk = diskStatus(view.Disks, before.Disk)
	}
}

func railCounts(total, up int) (ready, down int32) {
	return int32(up), int32(total - up) //nolint:gosec // at most 32 for each member
}

func clearHealth(status *v1alpha1.PeerCacheClusterStatus) {
	status.Rails.Ready, status.Rails.Down, status.NUMAMismatched = 0, 0, 0
	for i := range status.Groups {
		status.Groups[i].Rails.Ready, status.Groups[i].Rails.Down = 0, 0
	}
}
