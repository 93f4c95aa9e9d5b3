// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
)

// placeDiscovery moves the discovery label where chooseHosts wants it. Labels are added before others are
// taken away, so that the Service never has fewer addresses than it needs.
func (r *Reconciler) placeDiscovery(ctx context.Context, p *pass) error {
	add, remove := chooseHosts(p.facts.pods, p.facts.machines, int(p.cluster.Spec.Discovery.Replicas), r.Now())
	for _, change := range []struct {
		pods []*corev1.Pod
		host bool
	}{{add, true}, {remove, false}} {
		for _, pod := range change.pods {
			if err := r.labelHost(ctx, pod, change.host); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reconciler) labelHost(ctx context.Context, pod *corev1.Pod, host bool) error {
	labelled := pod.DeepCopy() // what the pass holds may be the cache's own
	if host {
		labelled.Labels[v1alpha1.LabelDiscovery] = v1alpha1.DiscoveryHost
	} else {
		delete(labelled.Labels, v1alpha1.LabelDiscovery)
	}
	err := r.Client.Patch(ctx, labelled, client.MergeFrom(pod), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling pod %s as discovery host (%t): %w", pod.Name, host, err)
	}
	*pod = *labelled // for the steps that follow
	log.FromContext(ctx).Info("moved the discovery label", "pod", pod.Name, "host", host)
	return nil
}
