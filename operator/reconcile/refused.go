// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/operator/status"
)

// refusalTTL is how long an event of a refused pod counts. The DaemonSet controller tries again after at most 17 minutes.
const refusalTTL = 20 * time.Minute

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// findRefusals asks why pods are missing that the DaemonSet controller should have made. Their own pods cannot tell.
func (r *Reconciler) findRefusals(ctx context.Context, p *pass) (err error) {
	if p.Refusals, err = r.refusalsOf(ctx, p.DaemonSets); err == nil {
		p.RemovalRefusals, err = r.refusalsOf(ctx, p.poolRemovals)
	}
	if apierrors.IsForbidden(err) { // a chart of another release: conditions know less
		log.FromContext(ctx).Info("the operator has no permission to list events, which have the reason why pods are refused", "error", err.Error())
		return nil
	}
	return err
}

func (r *Reconciler) refusalsOf(ctx context.Context, daemonSets map[string]*appsv1.DaemonSet) ([]status.Refusal, error) {
	var refusals []status.Refusal
	for _, name := range slices.Sorted(maps.Keys(daemonSets)) {
		daemonSet := daemonSets[name]
		missing := daemonSet.Status.DesiredNumberScheduled - daemonSet.Status.CurrentNumberScheduled
		if missing <= 0 || daemonSet.Status.ObservedGeneration < daemonSet.Generation {
			continue
		}
		var events corev1.EventList
		if err := r.Live.List(ctx, &events, client.InNamespace(daemonSet.Namespace), client.MatchingFieldsSelector{
			Selector: fields.SelectorFromSet(fields.Set{"involvedObject.uid": string(daemonSet.UID), "reason": "FailedCreate"}),
		}); err != nil {
			return nil, fmt.Errorf("listing the events of DaemonSet %s: %w", daemonSet.Name, err)
		}
		if len(events.Items) == 0 {
			continue
		}
		last := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
		if r.Now().Sub(last.LastTimestamp.Time) < refusalTTL {
			refusals = append(refusals, status.Refusal{DaemonSet: name, Namespace: daemonSet.Namespace, Missing: missing, Message: last.Message})
		}
	}
	return refusals, nil
}
