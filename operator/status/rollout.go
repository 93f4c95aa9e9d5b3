// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/preflight"
)

// rollout sums the progress of the cluster's DaemonSets.
type rollout struct {
	groups                  []v1alpha1.GroupStatus // sorted by name
	desired, ready, updated int32
	// drained counts nodes that are not desired because their machine is drained; drainedMachines names the machines.
	drained         int32
	drainedMachines []string // sorted
	// pending says that the DaemonSet controller has not observed the latest generation of some DaemonSet. The numbers
	// above may then describe the previous template.
	pending bool
}

func rolloutOf(daemonSets map[string]*appsv1.DaemonSet, machines []corev1.Node) rollout {
	var sum rollout
	for _, name := range slices.Sorted(maps.Keys(daemonSets)) {
		daemonSet := daemonSets[name]
		status := daemonSet.Status
		drained := preflight.Drained(daemonSet, machines)
		sum.groups = append(sum.groups, v1alpha1.GroupStatus{
			Name:    groupName(daemonSet),
			Desired: status.DesiredNumberScheduled,
			Drained: int32(len(drained)), //nolint:gosec // at most as many as machines
			Ready:   status.NumberReady,
			Updated: status.UpdatedNumberScheduled,
		})
		sum.drained += int32(len(drained)) //nolint:gosec // as above
		sum.drainedMachines = append(sum.drainedMachines, drained...)
		sum.desired += status.DesiredNumberScheduled
		sum.ready += status.NumberReady
		sum.updated += status.UpdatedNumberScheduled
		if status.ObservedGeneration < daemonSet.Generation {
			sum.pending = true
		}
	}
	slices.Sort(sum.drainedMachines)
	sum.drainedMachines = slices.Compact(sum.drainedMachines)
	return sum
}

// groupName reads plan.Group.FullName back from the labels of a DaemonSet.
func groupName(daemonSet *appsv1.DaemonSet) string {
	group := daemonSet.Labels[v1alpha1.LabelGroup]
	if pool := daemonSet.Labels[v1alpha1.LabelPool]; pool != "" {
		return pool + "-" + group
	}
	return group
}

// drainedMessage is the end of a message that names the drained machines; "" when none is drained.
func (r rollout) drainedMessage() string {
	if len(r.drainedMachines) == 0 {
		return ""
	}
	return "; drained machines: " + joinNames(r.drainedMachines, len(r.drainedMachines))
}

func (r rollout) members() string { return fmt.Sprintf("%d/%d", r.ready, r.desired) }

func (r rollout) updatedMessage() string {
	return fmt.Sprintf("%d of %d members run the current spec", r.updated, r.desired)
}

// complete says that every node runs the current template and is ready.
func (r rollout) complete() bool {
	return !r.pending && r.updated == r.desired && r.ready == r.desired
}
