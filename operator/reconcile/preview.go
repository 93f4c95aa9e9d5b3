// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	"github.com/peercache/peercache/operator/plan"
)

// maxChanges bounds status.plan.changes.
const maxChanges = 50

// preview lists what apply and prune would do.
func (r *Reconciler) preview(ctx context.Context, p *pass, desired *plan.Desired) ([]string, error) {
	var changes []string
	for _, object := range desired.Objects() {
		change, err := r.compare(ctx, p, object)
		if err != nil {
			return nil, err
		}
		switch {
		case change == nil:
		case change.live == nil:
			changes = append(changes, "create "+change.name)
		default:
			changes = append(changes, fmt.Sprintf("change %s at %s", change.name, change.field))
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
