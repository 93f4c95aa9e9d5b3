// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

const (
	// hitStep is by how many percent the hit ratio moves before that is shown at once.
	hitStep = 5
	// numbersEvery is how often numbers that change all the time are written for smaller changes.
	numbersEvery = time.Minute
)

// health is what is known of how the running nodes are.
type health struct {
	heard   hearsay
	running bool // there are nodes at all
	planned bool // the spec is only to be looked at
	groups  []plan.Group
	spec    v1alpha1.PeerCacheClusterSpec
}

func healthOf(p *pass) health {
	return health{
		heard: p.heard, running: len(p.facts.pods) > 0, planned: p.planned != nil,
		groups: plan.Groups(p.cluster.Spec), spec: p.cluster.Spec,
	}
}

// railsPerNode says how many rails each node of a group opens, by the group's name.
func (h health) railsPerNode() map[string]int {
	rails := map[string]int{}
	for _, group := range h.groups {
		rails[group.FullName()] = group.OpenRails(h.spec)
	}
	return rails
}

// conditions of health; those that stand as they are, because an answer may yet come, are left out.
func (h health) conditions(before []metav1.Condition) []metav1.Condition {
	var found []metav1.Condition
	for _, condition := range []metav1.Condition{h.railsHealthy(), h.numaAligned()} {
		waits := condition.Reason == reasonNotHeard && h.heard.hold
		if waits && meta.FindStatusCondition(before, condition.Type) != nil {
			continue
		}
		found = append(found, condition)
	}
	return found
}

const reasonNotHeard = "NotHeard"

// unheard is the condition while nothing can be said, or nil.
func (h health) unheard(kind string) *metav1.Condition {
	var condition metav1.Condition
	switch {
	case h.planned:
		condition = is(kind, metav1.ConditionUnknown, reasonPlanOnly, "nothing is made in mode: Plan")
	case !h.running:
		condition = is(kind, metav1.ConditionUnknown, "NoNodes", "no node runs")
	case h.heard.fleet == nil:
		condition = is(kind, metav1.ConditionUnknown, reasonNotHeard, "no node that hosts discovery tells how the members are: if "+
			"conditions Ready and Degraded name no cause, see that the operator may connect to spec.monitoring.port of the nodes "+
			"(NetworkPolicy)")
	default:
		return nil
	}
	return &condition
}

// railsHealthy says whether the rails of running nodes are up, and as many as the spec names.
func (h health) railsHealthy() metav1.Condition {
	const kind = v1alpha1.ConditionRailsHealthy
	perNode, rdma := h.railsPerNode(), false
	for _, rails := range perNode {
		rdma = rdma || rails > 0
	}
	if !rdma {
		return h.railsOverTCP()
	}
	if condition := h.unheard(kind); condition != nil {
		return *condition
	}
	rails := h.heard.fleet.Rails
	if down := rails.Total - rails.Up; down > 0 {
		var names []string
		for _, member := range rails.FirstDown {
			names = append(names, fmt.Sprintf("%s: %s (%d of %d up)", member.ID, member.Rail, member.RailsUp, member.Rails))
		}
		return is(kind, metav1.ConditionFalse, "RailsDown", fmt.Sprintf("%d of %d rails are down, on %d nodes: %s. Their pages travel by "+
			"the other rails or by TCP: look at the port, its cable and its switch (rdma link, ibstat), and run peercached doctor in "+
			"the node's pod", down, rails.Total, rails.MembersWithSomeDown, listed(names, rails.MembersWithSomeDown)))
	}
	var missing []string
	for _, group := range h.heard.fleet.Groups {
		if want := perNode[group.Name] * group.Members; group.Rails < want {
			missing = append(missing, fmt.Sprintf("group %s: %d instead of %d on %d nodes", group.Name, group.Rails, want, group.Members))
		}
	}
	if len(missing) > 0 {
		return is(kind, metav1.ConditionFalse, "RailsMissing", fmt.Sprintf("nodes have opened fewer rails than the spec names: %s. "+
			"transport in /v1/status of a node says why, and peercached doctor in its pod what to do",
			listed(missing, len(missing))))
	}
	return is(kind, metav1.ConditionTrue, "AllUp", fmt.Sprintf("%d rails of %d nodes are up", rails.Up, h.heard.fleet.Members))
}

// railsOverTCP says which rails the spec names for nothing. Nodes serve all the same: that may be meant for a while, to tell a
// fault of the fabric from others.
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
		return is(kind, metav1.ConditionTrue, "NotApplicable", "pages travel by TCP, which opens no rails")
	}
	where, fix := "over the pod network", "write interface: rail0 at one of each group's rails, beside its network, and "+
		"discovery.interface: rail0 for pages to travel there"
	if reached := h.spec.Discovery.Interface; reached != "" {
		where, fix = "at "+reached+", which discovery.interface names", "remove these rails"
	}
	return is(kind, metav1.ConditionFalse, "RailsUnused", fmt.Sprintf("with transport: TCP pages travel %s, so these rails carry none: "+
		"%s. For RDMA write transport: Auto; for TCP %s", where, listed(unused, len(unused)), fix))
}

// numaAligned says whether threads and memory of running nodes are near their rails.
func (h health) numaAligned() metav1.Condition {
	const kind = v1alpha1.ConditionNUMAAligned
	near := false
	for _, group := range h.groups {
		near = near || group.NearNUMA(h.spec)
	}
	if !near {
		return is(kind, metav1.ConditionTrue, "NotApplicable", "there are no rails to be near to")
	}
	if condition := h.unheard(kind); condition != nil {
		return *condition
	}
	numa := h.heard.fleet.NUMA
	switch {
	case numa.Misplaced > 0:
		var names []string
		for _, member := range numa.FirstMisplaced {
			names = append(names, fmt.Sprintf("%s: %s", member.ID, strings.ReplaceAll(member.What, "_", " ")))
		}
		return is(kind, metav1.ConditionFalse, "Misplaced", fmt.Sprintf("%d of %d nodes are far from their rails: %s. %s; numa in "+
			"/v1/status of the node says more", numa.Misplaced, h.heard.fleet.Members, listed(names, numa.Misplaced),
			strings.Join(numaRemedies(numa.FirstMisplaced), "; ")))
	case numa.Aligned > 0:
		message := fmt.Sprintf("threads and memory of %d nodes are on the NUMA node of their rails", numa.Aligned)
		if numa.Unknown > 0 {
			message += fmt.Sprintf("; %d cannot tell yet", numa.Unknown)
		}
		return is(kind, metav1.ConditionTrue, "Aligned", message)
	case numa.Unknown > 0:
		return is(kind, metav1.ConditionUnknown, "NotKnown", fmt.Sprintf("%d nodes cannot tell where their memory is: see numa in "+
			"/v1/status of a node", numa.Unknown))
	default:
		return is(kind, metav1.ConditionTrue, "NotApplicable", "no node has rails that share one NUMA node: with layout: PerNUMA and "+
			"rails[].numaNode every group has one")
	}
}

// numaRemedies are what to do about what is misplaced.
func numaRemedies(misplaced []fleet.Misplaced) []string {
	var threads, memory bool
	for _, member := range misplaced {
		threads = threads || member.What == fleet.ThreadsElsewhere
		memory = memory || member.What == fleet.MemoryElsewhere
	}
	var remedies []string
	if threads {
		remedies = append(remedies, "for threads, let the kubelet give the pod cores of that NUMA node (cpuManagerPolicy: static and "+
			"topologyManagerPolicy: single-numa-node, and a device plug-in that tells it where a rail is), or shared ones (a resources.cpu "+
			"that is no whole number)")
	}
	if memory {
		remedies = append(remedies, "for memory, reserve huge pages on that NUMA node, or lower memory.pool to what it has")
	}
	return remedies
}

// listed joins names, of which there are `all` altogether.
func listed(names []string, all int) string {
	if len(names) > maxFaults {
		names = names[:maxFaults]
	}
	text := strings.Join(names, "; ")
	if more := all - len(names); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// showHealth puts what the nodes say of themselves into the status. What is not known stays as it is.
func showHealth(status *v1alpha1.PeerCacheClusterStatus, h health, before v1alpha1.PeerCacheClusterStatus, m *memory, now time.Time) {
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
	if !h.running {
		clearHealth(status)
		return
	}
	if h.heard.fleet == nil {
		return
	}
	heard := *h.heard.fleet
	status.Rails.Ready, status.Rails.Down = railCounts(heard.Rails.Total, heard.Rails.Up)
	for i := range status.Groups {
		group := &status.Groups[i]
		group.Rails.Ready, group.Rails.Down = 0, 0
		for _, said := range heard.Groups {
			if said.Name == group.Name {
				group.Rails.Ready, group.Rails.Down = railCounts(said.Rails, said.RailsUp)
			}
		}
	}
	status.NUMAMismatched = int32(heard.NUMA.Misplaced) //nolint:gosec // at most as many as members
	showNumbers(status, heard, m, now)
}

func railCounts(total, up int) (ready, down int32) {
	return int32(up), int32(total - up) //nolint:gosec // at most 32 for each member
}

func clearHealth(status *v1alpha1.PeerCacheClusterStatus) {
	status.Rails.Ready, status.Rails.Down, status.NUMAMismatched, status.Engines, status.HitRatioPercent = 0, 0, 0, 0, nil
	for i := range status.Groups {
		status.Groups[i].Rails.Ready, status.Groups[i].Rails.Down = 0, 0
	}
}

// showNumbers shows what moves all the time, seldom enough that a busy cluster does not write its status with every
// look: all of it once a minute, and earlier what has moved far.
func showNumbers(status *v1alpha1.PeerCacheClusterStatus, heard fleet.Fleet, m *memory, now time.Time) {
	engines := int32(min(heard.Engines, 1<<30))
	var percent *int32
	if hits, known := heard.HitPercent(); known {
		percent = &hits
	}
	far := (engines == 0) != (status.Engines == 0)
	if percent != nil && status.HitRatioPercent != nil {
		moved := *percent - *status.HitRatioPercent
		far = far || moved >= hitStep || moved <= -hitStep
	}
	if !far && now.Sub(m.numbers) < numbersEvery {
		return
	}
	m.numbers = now
	status.Engines, status.HitRatioPercent = engines, percent
}
