// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/peercache/peercache/operator/inject"
)

// Watchdog finds and recreates missed SGLang pods.
type Watchdog struct {
	pods    cache.Cache
	live    client.Reader
	writer  client.Client
	options inject.Options
	now     func() time.Time

	mu      sync.Mutex
	history history
}

// New sets up the watchdog and its cache. That cache selects other pods than the manager's cache, which holds pods of nodes. The
// options are those of the webhook.
func New(mgr ctrl.Manager, options inject.Options) (*Watchdog, error) {
	pods, err := newCache(mgr.GetConfig(), mgr.GetScheme(), options.Namespaces)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(pods); err != nil {
		return nil, fmt.Errorf("adding the cache of SGLang pods: %w", err)
	}
	return newWatchdog(pods.GetCache(), mgr.GetAPIReader(), mgr.GetClient(), options), nil
}

func newWatchdog(pods cache.Cache, live client.Reader, writer client.Client, options inject.Options) *Watchdog {
	return &Watchdog{
		pods: pods, live: live, writer: writer, options: options, now: time.Now,
		history: history{
			clusters: map[types.NamespacedName]attempt{}, owners: map[types.UID]time.Time{}, pods: map[types.UID]skip{},
		},
	}
}

// newCache returns a cluster.Cluster, because a manager starts those before its controllers.
func newCache(config *rest.Config, scheme *runtime.Scheme, namespaces []string) (cluster.Cluster, error) {
	options, err := cacheOptions()
	if err != nil {
		return nil, err
	}
	options.DefaultNamespaces = inject.CacheNamespaces(namespaces)
	pods, err := cluster.New(config, func(o *cluster.Options) { o.Scheme, o.Cache = scheme, options })
	if err != nil {
		return nil, fmt.Errorf("setting up the cache of SGLang pods: %w", err)
	}
	// The index contains only missed pods, so that listing them does not read the others.
	err = pods.GetFieldIndexer().IndexField(context.Background(), podMeta(), missedBy, func(pod client.Object) []string {
		if !isMissed(pod) {
			return nil
		}
		return []string{inject.ClusterOf(pod, pod.GetNamespace()).String()}
	})
	if err != nil {
		return nil, fmt.Errorf("indexing missed pods: %w", err)
	}
	return pods, nil
}

// Source triggers a reconcile of a cluster when one of its pods becomes missed, or is no longer missed.
func (d *Watchdog) Source() source.Source {
	return source.Kind(d.pods, client.Object(podMeta()), handler.EnqueueRequestsFromMapFunc(clusterOf), missedChanged())
}
