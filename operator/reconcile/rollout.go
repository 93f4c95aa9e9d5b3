// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/preflight"
)

// rollout is how far the DaemonSets have come.
type rollout struct {
	groups                  []v1alpha1.GroupStatus // sorted by name
	desired, ready, updated int32
	// drained counts the nodes that are not desired because their machine is drained; away names these machines.
	drained int32
	away    []string // sorted
	// pending says that the DaemonSet controller has not seen the latest template of some group yet, so
	// the numbers are not to be believed.
	pending bool
}

func measure(daemonSets map[string]*appsv1.DaemonSet, machines []corev1.Node) rollout {
	var sum rollout
	for _, name := range slices.Sorted(maps.Keys(daemonSets)) {
		daemonSet := daemonSets[name]
		status := daemonSet.Status
		away := preflight.Drained(daemonSet, machines)
		sum.groups = append(sum.groups, v1alpha1.GroupStatus{
			Name:    groupName(daemonSet),
			Desired: status.DesiredNumberScheduled,
			Drained: int32(len(away)), //nolint:gosec // at most as many as machines
			Ready:   status.NumberReady,
			Updated: status.UpdatedNumberScheduled,
		})
		sum.drained += int32(len(away)) //nolint:gosec // as above
		sum.away = append(sum.away, away...)
		sum.desired += status.DesiredNumberScheduled
		sum.ready += status.NumberReady
		sum.updated += status.UpdatedNumberScheduled
		if status.ObservedGeneration < daemonSet.Generation {
			sum.pending = true
		}
	}
	slices.Sort(sum.away)
	sum.away = slices.Compact(sum.away)
	return sum
}

// groupName is plan.Group's full name, read from the DaemonSet's labels.
func groupName(daemonSet *appsv1.DaemonSet) string {
	group := daemonSet.Labels[v1alpha1.LabelGroup]
	if pool := daemonSet.Labels[v1alpha1.LabelPool]; pool != "" {
		return pool + "-" + group
	}
	return group
}

// drainedText ends a message with the machines that are drained; it is empty where there are none.
func (r rollout) drainedText() string {
	if len(r.away) == 0 {
		return ""
	}
	return "; drained machines: " + listed(r.away, len(r.away))
}

func (r rollout) nodes() string { return fmt.Sprintf("%d/%d", r.ready, r.desired) }

// current says how many nodes run the current spec.
func (r rollout) current() string {
	return fmt.Sprintf("%d of %d nodes run the current spec", r.updated, r.desired)
}

// complete says that every node runs the current template and serves.
func (r rollout) complete() bool {
	return !r.pending && r.updated == r.desired && r.ready == r.desired
}
