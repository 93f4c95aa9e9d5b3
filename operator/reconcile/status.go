// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/status"
)

// report writes the status if it changed, and records the events.
func (r *Reconciler) report(ctx context.Context, p *pass) error {
	memory := r.memories.get(p.Cluster)
	before := p.Cluster.DeepCopy()
	report := status.Compute(&p.Observed, &memory.status, r.Now())
	p.Cluster.Status = report.Status
	if !equality.Semantic.DeepEqual(before.Status, p.Cluster.Status) {
		err := r.Client.Status().Patch(ctx, p.Cluster, client.MergeFrom(before), client.FieldOwner(apply.FieldManager))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the status of %s: %w", client.ObjectKeyFromObject(p.Cluster), err)
		}
		if err == nil {
			memory.noteStatus(before.ResourceVersion, p.Cluster)
		}
		p.changed = true
	}
	exportStatus(p.Cluster)
	for _, event := range report.Events {
		r.Events.Eventf(p.Cluster, nil, event.Type, event.Reason, "Observe", "%s", event.Message)
	}
	p.settled = report.Settled
	return nil
}
