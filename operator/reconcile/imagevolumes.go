// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// imageVolumesFor is how long an answer holds: an upgrade of the API server may change it.
const imageVolumesFor = 10 * time.Minute

// imageVolumes remembers whether the API server removes image volumes.
type imageVolumes struct {
	mu      sync.Mutex
	asked   time.Time
	removed bool
}

// imageVolumesRemoved is true where a cluster's client comes in an image volume, and the API server removes those from pods.
// Kubernetes before 1.35 does that without an error, unless the feature gate ImageVolume is on. Its version does not tell, so
// this creates a DaemonSet in a dry run, and looks at what came of it.
func (r *Reconciler) imageVolumesRemoved(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) (bool, error) {
	if cluster.Spec.Injection.Client.Delivery != v1alpha1.ClientImageVolume {
		return false, nil
	}
	r.imageVolumes.mu.Lock()
	defer r.imageVolumes.mu.Unlock()
	if now := r.Now(); r.imageVolumes.asked.IsZero() || now.Sub(r.imageVolumes.asked) > imageVolumesFor {
		labels := map[string]string{"app.kubernetes.io/name": "image-volume"}
		tried := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, GenerateName: "image-volume-"},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						Containers: []corev1.Container{{Name: "none", Image: "none"}},
						Volumes: []corev1.Volume{{
							Name: "image", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "none"}},
						}},
					},
				},
			},
		}
		err := r.Client.Create(ctx, tried, client.DryRunAll)
		refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) // by somebody's policy or quota: nothing is known
		if err != nil && !refused {
			return false, fmt.Errorf("asking whether the API server keeps image volumes: %w", err)
		}
		r.imageVolumes.asked, r.imageVolumes.removed = now, !refused && len(tried.Spec.Template.Spec.Volumes) == 0
	}
	return r.imageVolumes.removed, nil
}
