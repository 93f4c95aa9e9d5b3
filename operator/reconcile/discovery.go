// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/discovery"
	"github.com/peercache/peercache/operator/rights"
)

// discover moves the discovery label. When the operator may not label pods, a condition says so.
func (r *Reconciler) discover(ctx context.Context, p *pass) error {
	if r.Facts.PodsUnpatched {
		return nil // the template labels all pods
	}
	return r.labelPods(p, func() error { return r.placeDiscovery(ctx, p) })
}

// labelPods does what labels pods. An operator that may not has a problem, and no error.
func (r *Reconciler) labelPods(p *pass, do func() error) error {
	changed := p.changed
	err := do()
	if !apierrors.IsForbidden(err) {
		return err
	}
	p.changed = changed // nothing changed, so the next pass may wait longer
	if p.Problem == nil {
		p.Problem = rights.Forbidden("label", "pods", schema.GroupKind{Kind: "Pod"}, p.Cluster.Namespace, err)
	}
	return nil
}

// placeDiscovery moves the discovery label to the pods that discovery.Choose returns. It adds labels before it removes
// others, so that the Service never has too few addresses. Because the cache may be stale, it removes none before the
// API server has confirmed the hosts that stay, nor when one of the new hosts is gone.
func (r *Reconciler) placeDiscovery(ctx context.Context, p *pass) error {
	hosts, remove := discovery.Choose(p.Pods, p.Machines, int(p.Cluster.Spec.Discovery.Replicas), r.Now())
	if len(remove) > 0 {
		hosts = append(hosts, keptHosts(p.Pods, remove)...)
	}
	gone := false
	p.changed = p.changed || len(hosts)+len(remove) > 0
	for _, pod := range hosts {
		found, err := r.labelHost(ctx, pod, true)
		if err != nil {
			return err
		}
		gone = gone || !found
	}
	if gone {
		return nil // a later pass chooses among the remaining pods
	}
	for _, pod := range remove {
		if _, err := r.labelHost(ctx, pod, false); err != nil {
			return err
		}
	}
	return nil
}

// keptHosts are the hosts that discovery.Choose leaves alone.
func keptHosts(pods []corev1.Pod, remove []*corev1.Pod) []*corev1.Pod {
	var stay []*corev1.Pod
	for i := range pods {
		if pod := &pods[i]; discovery.IsHost(pod) && discovery.CanHost(pod) && !slices.Contains(remove, pod) {
			stay = append(stay, pod)
		}
	}
	return stay
}

// labelHost adds or removes the label, and says whether the pod still exists. The patch is sent whatever the cache says
// of the label.
func (r *Reconciler) labelHost(ctx context.Context, pod *corev1.Pod, host bool) (bool, error) {
	value := "null"
	if host {
		value = strconv.Quote(v1alpha1.DiscoveryHost)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, v1alpha1.LabelDiscovery, value)
	labelled := pod.DeepCopy() // the pass may hold an object of the cache
	err := r.Client.Patch(ctx, labelled, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("labelling pod %s as discovery host (%t): %w", pod.Name, host, err)
	}
	if discovery.IsHost(pod) != host {
		log.FromContext(ctx).Info("moved the discovery label", "pod", pod.Name, "host", host)
	}
	*pod = *labelled // later steps see the new labels
	return true, nil
}
