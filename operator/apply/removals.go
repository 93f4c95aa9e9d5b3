// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/plan"
)

// Rest says how far the nodes of a cluster have come since their template last changed.
type Rest int

// From least to most.
const (
	// BeingReplaced: some may still have the file of a former template.
	BeingReplaced Rest = iota
	// Starting: all have the present template, and some do not serve yet.
	Starting
	// AtRest: all serve.
	AtRest
)

// ApplyPoolRemovals writes the DaemonSets whose pods remove the files of pools. A pod that ends removes the file that no node
// uses at the moment. So one is created at once, and the others wait: those that are no longer wanted, until all nodes have the
// present template, and those that change, until all nodes serve, because the file of a node that restarts is in use again soon.
func (a *Applier) ApplyPoolRemovals(ctx context.Context, run *Run, desired *plan.Desired, rest Rest) error {
	for _, daemonSet := range desired.PoolRemovals {
		if run.PoolRemovals[daemonSet.Name] != nil && rest < AtRest {
			continue
		}
		if err := a.applyOne(ctx, run, daemonSet); err != nil {
			return err
		}
	}
	if rest < Starting {
		return nil
	}
	for _, daemonSet := range surplus(run.PoolRemovals, desired.PoolRemovals) {
		if err := a.deleteDaemonSet(ctx, run, daemonSet); err != nil {
			return err
		}
		a.Events.Eventf(run.Cluster, daemonSet, corev1.EventTypeNormal, "PoolFilesRemoved", "Prune", "deleted DaemonSet %s, whose pods "+
			"remove the files that memory.hostPath no longer asks for", daemonSet.Name)
	}
	return nil
}
