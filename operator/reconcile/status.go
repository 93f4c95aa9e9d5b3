// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// report writes the status if it changed and records an event for every condition that did. It finds out
// whether the cluster has settled, so that it need not be looked at again soon.
func (r *Reconciler) report(ctx context.Context, p *pass) error {
	progress := measure(p.facts.daemonSets, p.facts.machines)
	faults := findFaults(p.facts.pods, plan.Groups(p.cluster.Spec), r.Now())
	under := followUpdate(p, progress)
	before := p.cluster.DeepCopy()

	status := &p.cluster.Status
	status.ObservedGeneration = p.cluster.Generation
	status.Groups = progress.groups
	status.DesiredNodes = progress.desired
	status.DrainedNodes = progress.drained
	status.ReadyNodes = progress.ready
	status.UpdatedNodes = progress.updated
	status.Update = under.under
	status.Nodes = progress.nodes()
	status.Members = p.members
	status.MissedPods = p.missed.count
	status.Plan = p.planned
	status.Objects = p.objects
	look := healthOf(p)
	memory := r.memories.of(p.cluster)
	showHealth(status, look, before.Status, memory, r.Now())
	if p.desired != nil {
		status.Image = p.desired.Image
		status.Capacity = capacity(p.cluster.Spec, p.desired, p.facts.daemonSets)
	}
	var changed []metav1.Condition
	conditions := append(judge(sight{p.problem, p.planned, p.checks, progress, under, faults}),
		monitoringReady(p), injectionReady(p.injection, p.missed, p.oldKernels))
	conditions = append(conditions, look.conditions(status.Conditions)...)
	if slices.ContainsFunc(faults, fault.refused) {
		memory.refused = r.Now()
	}
	stand := undecided(before, p.facts.pods, faults, progress.desired, memory.refused, r.Now())
	conditions = slices.DeleteFunc(conditions, func(c metav1.Condition) bool { return slices.Contains(stand, c.Type) })
	for _, condition := range conditions {
		condition.ObservedGeneration = p.cluster.Generation
		condition.LastTransitionTime = metav1.NewTime(r.Now())
		if transition(status.Conditions, condition) {
			changed = append(changed, condition)
		}
		meta.SetStatusCondition(&status.Conditions, condition)
	}

	if !equality.Semantic.DeepEqual(before.Status, p.cluster.Status) {
		err := r.Client.Status().Patch(ctx, p.cluster, client.MergeFrom(before), client.FieldOwner(FieldManager))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the status of %s: %w", client.ObjectKeyFromObject(p.cluster), err)
		}
		if err == nil {
			memory.note(before.ResourceVersion, p.cluster)
		}
		p.changed = p.changed || progressed(before.Status, p.cluster.Status)
	}
	export(p.cluster)
	for _, condition := range changed {
		r.Events.Eventf(p.cluster, nil, eventType(condition), condition.Reason, "Observe",
			"%s is %s: %s", condition.Type, condition.Status, condition.Message)
	}
	if status.DrainedNodes != before.Status.DrainedNodes {
		reason, message := drainEvent(before.Status.DrainedNodes, progress)
		r.Events.Eventf(p.cluster, nil, corev1.EventTypeNormal, reason, "Observe", "%s", message)
	}
	p.settled = p.planned != nil ||
		progress.complete() && progress.desired > 0 && p.members >= progress.desired && allTrue(p.checks)
	return nil
}

// drainEvent says what became of drained machines.
func drainEvent(before int32, progress rollout) (reason, message string) {
	reason = "Drained"
	if progress.drained < before {
		reason = "Undrained"
	}
	if progress.drained == 0 {
		return reason, fmt.Sprintf("no machine is drained any more; nodes that come back: %d", before)
	}
	return reason, fmt.Sprintf("drained machines: %s; nodes that are away or leaving: %d, before: %d; kubectl peercache undrain "+
		"brings them back", listed(progress.away, len(progress.away)), progress.drained, before)
}

// capacity is the memory for pages on all nodes that serve.
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

// allTrue says whether preflight found nothing that may yet come.
func allTrue(checks []metav1.Condition) bool {
	return !slices.ContainsFunc(checks, func(c metav1.Condition) bool { return c.Status != metav1.ConditionTrue })
}

// transition says whether a condition is worth an event: it changed its status or reason, not only its text.
func transition(before []metav1.Condition, after metav1.Condition) bool {
	old := meta.FindStatusCondition(before, after.Type)
	return old == nil || old.Status != after.Status || old.Reason != after.Reason
}

func eventType(condition metav1.Condition) string {
	bad := condition.Type == v1alpha1.ConditionDegraded && condition.Status == metav1.ConditionTrue ||
		condition.Status == metav1.ConditionFalse && (condition.Type == v1alpha1.ConditionConfigAccepted ||
			condition.Type == v1alpha1.ConditionNetworksResolved || condition.Type == v1alpha1.ConditionDevicesAvailable ||
			condition.Type == v1alpha1.ConditionRailsHealthy || condition.Type == v1alpha1.ConditionNUMAAligned ||
			condition.Reason == reasonPodsMissed) ||
		condition.Reason == reasonPaused
	if bad {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
