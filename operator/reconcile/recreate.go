// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/status"
)

// Watchdog finds SGLang pods that injection missed, or connected in part; see watchdog.Watchdog.
type Watchdog interface {
	Source() source.Source
	Missed(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error)
	Engines(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) ([]inject.Engine, error)
	Partly(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error)
	RecreateOne(
		ctx context.Context, cluster *v1alpha1.PeerCacheCluster, missed []corev1.Pod,
	) (*corev1.Pod, string)
}

// maxNamed bounds how many pods a message names.
const maxNamed = 3

// recreateMissed finds missed pods, those that are connected in part, and engines. If the spec asks for it, it recreates one of the missed, as long
// as a new pod would be connected.
func (r *Reconciler) recreateMissed(ctx context.Context, p *pass) error {
	if r.Watchdog == nil || p.Injection == status.WebhookDisabled {
		return nil
	}
	partly, err := r.Watchdog.Partly(ctx, p.Cluster)
	if err != nil {
		return err
	}
	p.Partly = named(partly)
	if p.Engines, err = r.Watchdog.Engines(ctx, p.Cluster); err != nil {
		return err
	}
	pods, err := r.Watchdog.Missed(ctx, p.Cluster)
	if err != nil || len(pods) == 0 {
		return err
	}
	p.Missed.Pods = named(pods)
	if p.Cluster.Spec.Injection.MissedPods != v1alpha1.MissedPodsRecreate || !p.Injection.Works() ||
		p.Cluster.Spec.Mode == v1alpha1.ModePlan {
		return nil
	}
	p.Missed.BeingRecreated = true
	evicted, obstacle := r.Watchdog.RecreateOne(ctx, p.Cluster, pods)
	p.Missed.Obstacle = obstacle
	if evicted != nil {
		p.changed = true
		r.Events.Eventf(p.Cluster, evicted, corev1.EventTypeNormal, "PodRecreated", "Recreate",
			"evicted pod %s/%s, which was created without being connected, so that it is recreated", evicted.Namespace, evicted.Name)
	}
	return nil
}

// named counts pods and names some.
func named(pods []corev1.Pod) (list status.Pods) {
	list.Count = int32(len(pods)) //nolint:gosec // fewer than 2^31 pods
	for _, pod := range pods[:min(len(pods), maxNamed)] {
		list.Names = append(list.Names, pod.Namespace+"/"+pod.Name)
	}
	return list
}
