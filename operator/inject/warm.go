// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// warmRetry is the pause after an informer could not be started, for example because the CRD is not there yet.
const warmRetry = time.Second

// warmer fills the cache from which the webhook reads, before the replica is ready. Controllers fill it on the replica that
// leads only. Without the warmer, the first admission request of another replica would list every cluster within its own time.
type warmer struct {
	informers cache.Informers
	objects   []client.Object
	filled    chan struct{}
}

func newWarmer(informers cache.Informers, objects []client.Object) *warmer {
	return &warmer{informers: informers, objects: objects, filled: make(chan struct{})}
}

// cachedObjects are the kinds that the webhook reads from the cache.
func (o Options) cachedObjects() []client.Object {
	objects := []client.Object{&v1alpha1.PeerCacheCluster{}, &corev1.LimitRange{}, &corev1.ResourceQuota{}}
	if o.Namespaced() {
		return objects
	}
	return append(objects, namespaceObject(), csiDriver(), &storagev1.CSINode{})
}

// CacheNamespaces restricts a cache to the namespaces that the operator watches.
func CacheNamespaces(namespaces []string) map[string]cache.Config {
	if len(namespaces) == 0 {
		return nil
	}
	scopes := map[string]cache.Config{}
	for _, namespace := range namespaces {
		scopes[namespace] = cache.Config{}
	}
	return scopes
}

func csiDriver() *metav1.PartialObjectMetadata {
	driver := &metav1.PartialObjectMetadata{}
	driver.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("CSIDriver"))
	return driver
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*warmer) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *warmer) Start(ctx context.Context) error {
	for _, object := range w.objects {
		err := wait.PollUntilContextCancel(ctx, warmRetry, true, func(ctx context.Context) (bool, error) {
			_, err := w.informers.GetInformer(ctx, object) // returns when the cache is filled
			if err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "the webhook's cache is not filled yet", "kind", fmt.Sprintf("%T", object))
			}
			return err == nil, nil
		})
		if err != nil {
			return nil //nolint:nilerr // the operator stops
		}
	}
	close(w.filled)
	return nil
}

// ready is a readiness check.
func (w *warmer) ready(*http.Request) error {
	select {
	case <-w.filled:
		return nil
	default:
		return errors.New("the cache from which the webhook reads PeerCacheClusters is not filled yet")
	}
}
