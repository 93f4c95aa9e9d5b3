// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// prune deletes the DaemonSets of groups that the spec no longer has.
func (r *Reconciler) prune(ctx context.Context, p *pass) error {
	for _, daemonSet := range surplus(p.facts.daemonSets, p.desired.DaemonSets) {
		err := r.Client.Delete(ctx, daemonSet,
			client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &daemonSet.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting DaemonSet %s of a group that is gone: %w", daemonSet.Name, err)
		}
		p.changed = true
		delete(r.memories.of(p.cluster).objects, title("DaemonSet", client.ObjectKeyFromObject(daemonSet)))
		delete(p.facts.daemonSets, daemonSet.Name)
		r.Events.Eventf(p.cluster, daemonSet, corev1.EventTypeNormal, "GroupRemoved", "Prune",
			"deleted DaemonSet %s, because spec.rails no longer has its group", daemonSet.Name)
	}
	return nil
}

// surplus lists what exists, is not wanted and is not on its way out, sorted by name.
func surplus(have map[string]*appsv1.DaemonSet, want []*appsv1.DaemonSet) []*appsv1.DaemonSet {
	var gone []*appsv1.DaemonSet
	for _, name := range slices.Sorted(maps.Keys(have)) {
		wanted := slices.ContainsFunc(want, func(d *appsv1.DaemonSet) bool { return d.Name == name })
		if !wanted && have[name].DeletionTimestamp.IsZero() {
			gone = append(gone, have[name])
		}
	}
	return gone
}
