// SPDX-License-Identifier: Apache-2.0

// Package status computes the status of a PeerCacheCluster, with its conditions and events, from what one pass observed.
// It is pure.
//
//	report := status.Compute(&observed, &memory, now)
//
//	status.go      input and output
//	conditions.go  ConfigAccepted, Progressing, Degraded, Ready and MonitoringReady
//	available.go   Available
//	rollout.go     progress of the DaemonSets; update.go the gate on the hit ratio
//	faults.go      reasons why nodes do not serve; refused.go pods that the API server refuses; rejected.go those that a
//	               kubelet did not admit
//	health.go      RailsHealthy and NUMAAligned; disks.go DisksHealthy
//	injection.go   InjectionReady; engines.go EnginesAttached
//	peers.go       PeersAuthenticated
//	deadlines.go   times at which the status changes without an event
package status

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// Observed is everything that the status depends on: the objects that a pass read, and the result of applying the plan.
type Observed struct {
	Cluster *v1alpha1.PeerCacheCluster

	DaemonSets map[string]*appsv1.DaemonSet // of the cluster's nodes, by name
	Pods       []corev1.Pod                 // of the cluster's nodes
	Machines   []corev1.Node                // all of the Kubernetes cluster
	// PoolRemovalPods remove the files of pools when they end.
	PoolRemovalPods []corev1.Pod

	// Refusals are DaemonSets of the nodes of which pods are missing that the API server refuses; RemovalRefusals those of
	// pods that remove the files of pools.
	Refusals, RemovalRefusals []Refusal

	Desired        *plan.Desired         // nil when the spec is not in effect
	Problem        *plan.Problem         // why the spec cannot be put into effect; nil when it can
	Planned        *v1alpha1.PlanStatus  // in mode Plan only
	Checks         []metav1.Condition    // of preflight
	Objects        []v1alpha1.MadeObject // created besides the nodes
	UnknownKinds   []schema.GroupKind    // requested kinds that the API server does not serve
	ForbiddenKinds []schema.GroupKind    // requested kinds that the operator may not write
	Token          *plan.Token           // from the Secret that the operator keeps; nil when it keeps none
	ActiveMembers  int32
	Fleet          FleetView

	Injection Injection
	// Namespaces are those that the operator watches, and in which the API server calls its webhook; none means all.
	Namespaces []string
	// PodsUnpatched says that the operator may not patch pods.
	PodsUnpatched bool
	// OldKernels names the machines whose kernel is too old for the CSI driver of injection.socket; "" when none is.
	OldKernels string
	Missed     Missed
	// Partly are the pods that are not seen to get the flags.
	Partly Pods
	// Engines are the connected pods that are on a machine; nil where nobody looks for them.
	Engines []inject.Engine
}

// FleetView is the latest answer of the discovery hosts about all members.
type FleetView struct {
	Fleet *fleet.Fleet
	// Engines is the number of engines that are attached to each member, by its name.
	Engines map[string]uint64
	// Hold says that no host has answered yet, but one still may. Conditions keep their values meanwhile.
	Hold bool
}

// Memory carries times from one call of Compute to the next. The status itself does not hold them.
type Memory struct {
	// PodRejected is the last time at which a pod was seen that a kubelet did not admit.
	PodRejected time.Time
	// Engines is what was seen of engines.
	Engines EngineMemory
}

// Report is the result of Compute.
type Report struct {
	Status v1alpha1.PeerCacheClusterStatus
	// Events describe the conditions that changed, and machines that were drained or undrained.
	Events []Event
	// Settled says that no change is expected soon.
	Settled bool
}

// Event is an event to record for the cluster.
type Event struct{ Type, Reason, Message string }

// Compute returns the new status of seen.Cluster, whose own status is the previous one. It does not modify the cluster.
func Compute(seen *Observed, memory *Memory, now time.Time) Report {
	before := seen.Cluster
	progress := rolloutOf(seen.DaemonSets, seen.Machines)
	faults := append(refusalFaults(seen.Refusals), faultsOf(seen.Pods, plan.Groups(before.Spec), now)...)
	removalFaults := append(refusalFaults(seen.RemovalRefusals), removalFaultsOf(seen.PoolRemovalPods, now)...)
	update := trackUpdate(seen, progress)

	status := before.Status.DeepCopy()
	status.ObservedGeneration = before.Generation
	status.Groups = progress.groups
	status.DesiredMembers = progress.desired
	status.DrainedMembers = progress.drained
	status.ReadyMembers = progress.ready
	status.UpdatedMembers = progress.updated
	status.Update = update.status
	status.Members = progress.members()
	status.ActiveMembers = seen.ActiveMembers
	status.MissedPods = seen.Missed.Count
	status.Plan = seen.Planned
	status.Objects = seen.Objects
	health := healthOf(seen)
	setHealth(status, health, before.Status)
	if seen.Token != nil && seen.Token.Step == 0 {
		status.RotatedToken = seen.Token.Rotation
	}
	if seen.Desired != nil {
		status.Image = seen.Desired.Image
		status.Capacity = capacity(before.Spec, seen.Desired, seen.DaemonSets)
	}
	var events []Event
	conditions := append(conditionsOf(conditionInputs{seen.Problem, seen.Planned, seen.Checks, progress, update, faults, removalFaults, discoveryReady(seen.Pods),
		plan.BypassOf(before.Spec, seen.Machines).Message(seen.Pods), seen.PodsUnpatched}),
		peersAuthenticated(seen), monitoringReady(seen), injectionReady(seen))
	conditions = append(conditions, health.conditions(status.Conditions)...)
	conditions = append(conditions, enginesAttached(seen, health, &memory.Engines, now)...)
	if slices.ContainsFunc(faults, fault.rejected) {
		memory.PodRejected = now
	}
	kept := keptConditions(before, seen.Pods, faults, progress.desired, memory.PodRejected, now)
	conditions = slices.DeleteFunc(conditions, func(c metav1.Condition) bool { return slices.Contains(kept, c.Type) })
	for _, condition := range conditions {
		condition.ObservedGeneration = before.Generation
		condition.LastTransitionTime = metav1.NewTime(now)
		if transition(status.Conditions, condition) {
			events = append(events, Event{eventType(condition, meta.FindStatusCondition(status.Conditions, condition.Type)), condition.Reason,
				fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message)})
		}
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	if status.DrainedMembers != before.Status.DrainedMembers {
		reason, message := drainEvent(before.Status.DrainedMembers, progress)
		events = append(events, Event{corev1.EventTypeNormal, reason, message})
	}
	settled := seen.Planned != nil ||
		progress.complete() && progress.desired > 0 && seen.ActiveMembers >= progress.desired && allTrue(seen.Checks)
	return Report{*status, events, settled}
}

// drainEvent describes a change of the number of drained nodes; before is the previous number.
func drainEvent(before int32, progress rollout) (reason, message string) {
	reason = "Drained"
	if progress.drained < before {
		reason = "Undrained"
	}
	if progress.drained == 0 {
		return reason, fmt.Sprintf("no machine is drained any more; members that come back: %d", before)
	}
	return reason, fmt.Sprintf("drained machines: %s; members that are away or leaving: %d, before: %d; kubectl peercache undrain "+
		"brings them back", joinNames(progress.drainedMachines, len(progress.drainedMachines)), progress.drained, before)
}

// capacity sums the pools of all ready nodes.
func capacity(spec v1alpha1.PeerCacheClusterSpec, desired *plan.Desired, daemonSets map[string]*appsv1.DaemonSet) resource.Quantity {
	var sum resource.Quantity
	for i, group := range desired.Groups {
		if live := daemonSets[desired.DaemonSets[i].Name]; live != nil {
			pool := group.Memory(spec).Pool.DeepCopy()
			pool.Mul(int64(live.Status.NumberReady))
			sum.Add(pool)
		}
	}
	return sum
}

// allTrue says whether preflight found everything. What is missing may still appear, so a cluster with a check that is
// not True has not settled.
func allTrue(checks []metav1.Condition) bool {
	return !slices.ContainsFunc(checks, func(c metav1.Condition) bool { return c.Status != metav1.ConditionTrue })
}

// transition says whether a condition is worth an event: its status or reason changed, not only its message.
func transition(before []metav1.Condition, after metav1.Condition) bool {
	old := meta.FindStatusCondition(before, after.Type)
	return old == nil || old.Status != after.Status || old.Reason != after.Reason
}

// eventType is the type of the event of a condition; before is the former one, nil at first. A cluster that is not yet
// available is no reason to worry, one that is no longer is.
func eventType(condition metav1.Condition, before *metav1.Condition) string {
	lost := condition.Type == v1alpha1.ConditionAvailable && condition.Status == metav1.ConditionFalse &&
		before != nil && before.Status == metav1.ConditionTrue
	bad := lost || condition.Type == v1alpha1.ConditionDegraded && condition.Status == metav1.ConditionTrue ||
		condition.Status == metav1.ConditionFalse && (condition.Type == v1alpha1.ConditionConfigAccepted ||
			condition.Type == v1alpha1.ConditionPeersAuthenticated ||
			condition.Type == v1alpha1.ConditionNetworksResolved || condition.Type == v1alpha1.ConditionDevicesAvailable ||
			condition.Type == v1alpha1.ConditionRailsHealthy || condition.Type == v1alpha1.ConditionNUMAAligned ||
			condition.Type == v1alpha1.ConditionDisksHealthy || condition.Type == v1alpha1.ConditionEnginesAttached ||
			condition.Reason == reasonPodsMissed || condition.Reason == reasonPodsPartly) ||
		condition.Reason == reasonPaused
	if bad {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
