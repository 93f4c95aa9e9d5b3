// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/operator/plan"
)

// maxChanges bounds status.plan.changes.
const maxChanges = 50

// preview lists what apply and prune would do.
func (r *Reconciler) preview(ctx context.Context, p *pass, desired *plan.Desired) ([]string, error) {
	var changes []string
	for _, object := range slices.Concat(desired.Extras, desired.Objects()) {
		change, err := r.compare(ctx, p, object)
		switch {
		case meta.IsNoMatchError(err):
			changes = append(changes, fmt.Sprintf("create %s as soon as its kind exists", describe(object)))
		case err != nil:
			return nil, err
		case change == nil:
		case change.live == nil:
			changes = append(changes, "create "+change.name)
		case change.first.path == "":
			changes = append(changes, fmt.Sprintf("change %s at fields that are no longer wanted", change.name))
		default:
			changes = append(changes, fmt.Sprintf("change %s at %s", change.name, change.first.path))
		}
	}
	for _, old := range p.cluster.Status.Objects {
		if !slices.ContainsFunc(desired.Extras, func(object client.Object) bool { return madeObject(object) == old }) {
			changes = append(changes, "delete "+title(old.Kind, placeOf(p.cluster, old)))
		}
	}
	for _, daemonSet := range surplus(p.facts.daemonSets, desired.DaemonSets) {
		changes = append(changes, fmt.Sprintf("delete DaemonSet %s/%s", daemonSet.Namespace, daemonSet.Name))
	}
	if len(changes) > maxChanges {
		changes = append(changes[:maxChanges], fmt.Sprintf("and %d more", len(changes)-maxChanges))
	}
	return changes, nil
}
