// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Engines finds and recreates SGLang pods that injection missed; see watchdog.Watchdog.
type Engines interface {
	Source() source.Source
	Missed(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) ([]metav1.PartialObjectMetadata, error)
	RecreateOne(
		ctx context.Context, cluster *v1alpha1.PeerCacheCluster, missed []metav1.PartialObjectMetadata,
	) (*metav1.PartialObjectMetadata, string)
}

// missed are the SGLang pods that ask for the cluster and were not connected.
type missed struct {
	count int32
	names []string // some of them, oldest first
	// beingRecreated says that the cluster is to be looked at again soon, and obstacle why the first is left alone.
	beingRecreated bool
	obstacle       string
}

const (
	reasonPodsMissed = "PodsMissed"
	// maxNamed bounds a message.
	maxNamed = 3
)

// rescue finds missed pods and, on request, recreates one of them, as long as a new pod would be connected.
func (r *Reconciler) rescue(ctx context.Context, p *pass) error {
	if r.Engines == nil || p.injection == webhookDisabled {
		return nil
	}
	pods, err := r.Engines.Missed(ctx, p.cluster)
	if err != nil || len(pods) == 0 {
		return err
	}
	p.missed.count = int32(len(pods)) //nolint:gosec // bounded by the number of pods
	for _, pod := range pods[:min(len(pods), maxNamed)] {
		p.missed.names = append(p.missed.names, pod.Namespace+"/"+pod.Name)
	}
	if p.cluster.Spec.Injection.MissedPods != v1alpha1.MissedPodsRecreate || !p.injection.works() ||
		p.cluster.Spec.Mode == v1alpha1.ModePlan {
		return nil
	}
	p.missed.beingRecreated = true
	evicted, obstacle := r.Engines.RecreateOne(ctx, p.cluster, pods)
	p.missed.obstacle = obstacle
	if evicted != nil {
		p.changed = true
		r.Events.Eventf(p.cluster, evicted, corev1.EventTypeNormal, "PodRecreated", "Recreate",
			"evicted pod %s/%s, which was created without being connected, so that it is created anew", evicted.Namespace, evicted.Name)
	}
	return nil
}

// missedPods is the condition InjectionReady while there are some.
func missedPods(because string, m missed) metav1.Condition {
	names := strings.Join(m.names, ", ")
	if more := int(m.count) - len(m.names); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	remedy := "delete them so that they are created anew, or write spec.injection.missedPods: Recreate"
	if m.beingRecreated {
		remedy = "they are recreated one by one"
		if m.obstacle != "" {
			remedy = m.obstacle + "; delete it by hand"
		}
	}
	return is(v1alpha1.ConditionInjectionReady, metav1.ConditionFalse, reasonPodsMissed, fmt.Sprintf(
		"%d pods run without PeerCache although they ask for it, because %s when they were created or their "+
			"label came later (%s): %s", m.count, because, names, remedy))
}
