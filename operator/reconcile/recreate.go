// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/status"
)

// Watchdog finds and recreates SGLang pods that injection missed; see watchdog.Watchdog.
type Watchdog interface {
	Source() source.Source
	Missed(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) ([]metav1.PartialObjectMetadata, error)
	RecreateOne(
		ctx context.Context, cluster *v1alpha1.PeerCacheCluster, missed []metav1.PartialObjectMetadata,
	) (*metav1.PartialObjectMetadata, string)
}

// maxNamed bounds how many missed pods a message names.
const maxNamed = 3

// recreateMissed finds missed pods. If the spec asks for it, it recreates one of them, as long as a new pod would be
// connected.
func (r *Reconciler) recreateMissed(ctx context.Context, p *pass) error {
	if r.Watchdog == nil || p.Injection == status.WebhookDisabled {
		return nil
	}
	pods, err := r.Watchdog.Missed(ctx, p.Cluster)
	if err != nil || len(pods) == 0 {
		return err
	}
	p.Missed.Count = int32(len(pods)) //nolint:gosec // fewer than 2^31 pods
	for _, pod := range pods[:min(len(pods), maxNamed)] {
		p.Missed.Names = append(p.Missed.Names, pod.Namespace+"/"+pod.Name)
	}
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
			"evicted pod %s/%s, which was created without being connected, so that it is created anew", evicted.Namespace, evicted.Name)
	}
	return nil
}
