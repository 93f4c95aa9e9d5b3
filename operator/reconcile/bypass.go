// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// bypass labels the pods of members that are to be bypassed, and takes the label from others. When the operator may not label
// pods, a condition says so.
func (r *Reconciler) bypass(ctx context.Context, p *pass) error {
	if r.Facts.PodsUnpatched {
		if p.Cluster.Spec.Injection.Bypass == v1alpha1.SwitchEnabled && p.Problem == nil {
			p.Problem = &plan.Problem{Reason: "BypassNotPossible", Message: "spec.injection.bypass is Enabled, and the operator has no permission to label pods: " +
				"run it without --patch-pods=false (rbac.pods.enabled of the Helm chart), or remove the field"}
		}
		return nil
	}
	wanted := plan.BypassOf(p.Cluster.Spec, p.Machines)
	return r.labelPods(p, func() error {
		for i := range p.Pods {
			pod := &p.Pods[i]
			var value any
			if wanted.On(pod) {
				value = v1alpha1.BypassOn
			}
			if (pod.Labels[v1alpha1.LabelBypass] == v1alpha1.BypassOn) == (value != nil) {
				continue
			}
			patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelBypass: value}}}
			if err := r.patchPod(ctx, p, pod, types.MergePatchType, patch); err != nil {
				return err
			}
		}
		return nil
	})
}
