// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
)

// lostAfter is how long a discovery host may be not ready before a ready pod takes its place. It is longer
// than a restart of the container, which does not change the pod's address.
const lostAfter = 30 * time.Second

// placeDiscovery moves the discovery label where chooseHosts wants it. Labels are added before others are
// taken away, so that the Service never has fewer addresses than it needs.
func (r *Reconciler) placeDiscovery(ctx context.Context, p *pass) error {
	add, remove := chooseHosts(p.facts.pods, int(p.cluster.Spec.Discovery.Replicas), r.Now())
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

// chooseHosts decides which pods get the discovery label and which lose it. Hosts stay where they are as
// long as they live, because every move costs the nodes a new look at the Service; free places go to
// ready pods first, then to running ones, the oldest first. Pods that cannot host lose the label.
func chooseHosts(pods []corev1.Pod, replicas int, now time.Time) (add, remove []*corev1.Pod) {
	var candidates []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		switch {
		case canHost(pod):
			candidates = append(candidates, pod)
		case isHost(pod) && pod.DeletionTimestamp.IsZero():
			remove = append(remove, pod)
		}
	}
	slices.SortStableFunc(candidates, func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(rank(a, now), rank(b, now)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name),
		)
	})
	for i, pod := range candidates {
		switch {
		case i < replicas && !isHost(pod):
			add = append(add, pod)
		case i >= replicas && isHost(pod):
			remove = append(remove, pod)
		}
	}
	return add, remove
}

// rank orders candidates: a host that is well, a ready pod, a host that is lost, any other running pod.
func rank(pod *corev1.Pod, now time.Time) int {
	ready := condition(pod, corev1.PodReady)
	isReady := ready != nil && ready.Status == corev1.ConditionTrue
	lost := ready != nil && !isReady && now.Sub(ready.LastTransitionTime.Time) > lostAfter
	switch {
	case isHost(pod) && !lost:
		return 0
	case isReady:
		return 1
	case isHost(pod):
		return 2
	default:
		return 3
	}
}

// canHost says whether a pod has an address and is not about to lose it.
func canHost(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != ""
}

func isHost(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelDiscovery] == v1alpha1.DiscoveryHost
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
