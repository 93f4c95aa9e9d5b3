// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Watchdog finds SGLang pods that are missed or partly connected, and recreates missed ones.
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
	compared.pods.Store(&podReader{pods.GetCache()})
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
	// An index contains only pods that lack something, so that listing them does not read the others.
	for index, is := range map[string]func(metav1.Object) bool{missedBy: isMissed, partlyBy: isPartly, joinedBy: isConnected} {
		err = pods.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, index, func(pod client.Object) []string {
			if !is(pod) {
				return nil
			}
			return []string{inject.ClusterOf(pod, pod.GetNamespace()).String()}
		})
		if err != nil {
			return nil, fmt.Errorf("indexing pods: %w", err)
		}
	}
	return pods, nil
}

// Source triggers a reconcile of a cluster when one of its pods becomes missed or partly connected, or no longer is.
func (d *Watchdog) Source() source.Source {
	return source.Kind(d.pods, client.Object(&corev1.Pod{}), handler.EnqueueRequestsFromMapFunc(clusterOf), changed())
}
