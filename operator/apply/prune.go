// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// Prune deletes the DaemonSets of groups that the spec no longer has.
func (a *Applier) Prune(ctx context.Context, run *Run, desired *plan.Desired) error {
	for _, daemonSet := range surplus(run.DaemonSets, desired.DaemonSets) {
		if err := a.deleteDaemonSet(ctx, run, daemonSet); err != nil {
			return err
		}
		delete(run.DaemonSets, daemonSet.Name)
		a.Events.Eventf(run.Cluster, daemonSet, corev1.EventTypeNormal, "GroupRemoved", "Prune",
			"deleted DaemonSet %s, because spec.rails no longer has its group", daemonSet.Name)
	}
	return nil
}

// deleteDaemonSet deletes a DaemonSet that is no longer wanted.
func (a *Applier) deleteDaemonSet(ctx context.Context, run *Run, daemonSet *appsv1.DaemonSet) error {
	name := Title("DaemonSet", client.ObjectKeyFromObject(daemonSet))
	err := a.Client.Delete(ctx, daemonSet,
		client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &daemonSet.UID})
	if apierrors.IsForbidden(err) {
		return rights.Forbidden("delete", name, schema.GroupKind{Group: appsv1.GroupName, Kind: "DaemonSet"}, daemonSet.Namespace, err)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s, which the spec no longer needs: %w", name, err)
	}
	run.Changed = true
	delete(run.Memory.objects, name)
	return nil
}

// surplus lists the DaemonSets that exist, are not wanted and are not being deleted, sorted by name.
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
