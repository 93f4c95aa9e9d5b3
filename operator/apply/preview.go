// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// maxChanges bounds status.plan.changes.
const maxChanges = 50

// Preview lists the changes that Apply, Prune and ApplyPoolRemovals would make.
func (a *Applier) Preview(ctx context.Context, run *Run, desired *plan.Desired) ([]string, error) {
	var changes []string
	for _, secret := range []struct {
		ownedSecret
		wanted *corev1.Secret
	}{{tokenSecret, desired.Token}, {tenantSecret, desired.Tenants}} {
		if secret.wanted == nil {
			continue
		}
		live, err := secret.live(ctx, a, run, secret.wanted)
		switch {
		case rights.IsForbidden(err):
			changes = append(changes, fmt.Sprintf("write %s as soon as the operator may", describe(secret.wanted)))
		case err != nil:
			return nil, err
		case live == nil:
			changes = append(changes, "create "+describe(secret.wanted))
		}
	}
	var removals []client.Object
	for _, daemonSet := range desired.PoolRemovals {
		removals = append(removals, daemonSet)
	}
	for _, object := range slices.Concat(desired.Extras, desired.Objects(), removals) {
		change, err := a.compare(ctx, run, object)
		switch {
		case meta.IsNoMatchError(err):
			changes = append(changes, fmt.Sprintf("create %s as soon as its kind exists", describe(object)))
		case rights.MaySkip(err, object):
			changes = append(changes, fmt.Sprintf("write %s as soon as the operator may", describe(object)))
		case err != nil:
			return nil, err
		case change == nil:
		case change.live == nil:
			changes = append(changes, "create "+change.name)
		case change.first.Path == "":
			changes = append(changes, fmt.Sprintf("change %s at fields that the spec no longer sets", change.name))
		default:
			changes = append(changes, fmt.Sprintf("change %s at %s", change.name, change.first.Path))
		}
	}
	for _, old := range run.Cluster.Status.Objects {
		if !slices.ContainsFunc(desired.Extras, func(object client.Object) bool { return referenceTo(object) == old }) {
			changes = append(changes, "delete "+Title(old.Kind, keyOf(run.Cluster, old)))
		}
	}
	for _, daemonSet := range slices.Concat(surplus(run.DaemonSets, desired.DaemonSets), surplus(run.PoolRemovals, desired.PoolRemovals)) {
		changes = append(changes, fmt.Sprintf("delete DaemonSet %s/%s", daemonSet.Namespace, daemonSet.Name))
	}
	if len(changes) > maxChanges {
		changes = append(changes[:maxChanges], fmt.Sprintf("and %d more", len(changes)-maxChanges))
	}
	return changes, nil
}
