// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
)

// placeDiscovery moves the discovery label where chooseHosts wants it. Labels are added before others are
// taken away, so that the Service never has fewer addresses than it needs. Because the cache may be late, none is taken
// away before the API server has confirmed those that stay, nor while a pod that should have one is gone.
func (r *Reconciler) placeDiscovery(ctx context.Context, p *pass) error {
	hosts, remove := chooseHosts(p.facts.pods, p.facts.machines, int(p.cluster.Spec.Discovery.Replicas), r.Now())
	if len(remove) > 0 {
		hosts = append(hosts, staying(p.facts.pods, remove)...)
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
		return nil // a later pass chooses among those that are left
	}
	for _, pod := range remove {
		if _, err := r.labelHost(ctx, pod, false); err != nil {
			return err
		}
	}
	return nil
}

// staying are the hosts that chooseHosts leaves alone.
func staying(pods []corev1.Pod, remove []*corev1.Pod) []*corev1.Pod {
	var stay []*corev1.Pod
	for i := range pods {
		if pod := &pods[i]; isHost(pod) && canHost(pod) && !slices.Contains(remove, pod) {
			stay = append(stay, pod)
		}
	}
	return stay
}

// labelHost says whether the pod still exists. The patch names the label, whatever the cache holds of it.
func (r *Reconciler) labelHost(ctx context.Context, pod *corev1.Pod, host bool) (bool, error) {
	value := "null"
	if host {
		value = strconv.Quote(v1alpha1.DiscoveryHost)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, v1alpha1.LabelDiscovery, value)
	labelled := pod.DeepCopy() // what the pass holds may be the cache's own
	err := r.Client.Patch(ctx, labelled, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("labelling pod %s as discovery host (%t): %w", pod.Name, host, err)
	}
	if isHost(pod) != host {
		log.FromContext(ctx).Info("moved the discovery label", "pod", pod.Name, "host", host)
	}
	*pod = *labelled // for the steps that follow
	return true, nil
}
