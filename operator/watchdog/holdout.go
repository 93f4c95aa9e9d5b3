// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
)

// The label of the metric for each value of names.AnnotationHoldout.
var groups = map[string]string{names.HoldoutTrue: "holdout", names.HoldoutFalse: "cache"}

// scrapeTimeout bounds the wait for a cache that is not filled yet.
const scrapeTimeout = time.Second

// podReader is the cache of engine pods.
type podReader struct{ client.Reader }

// comparedCollector lists the pods of both groups at every scrape.
type comparedCollector struct {
	desc *prometheus.Desc
	pods atomic.Pointer[podReader]
}

var compared = &comparedCollector{desc: prometheus.NewDesc("peercache_operator_compared_pod",
	"1 for each engine pod of a cluster that holds pods out, or whose annotation names a group: cache, or holdout, which runs without.",
	[]string{"engine_namespace", "engine_pod", "cluster_namespace", "cluster", "group"}, nil)}

func init() { metrics.Registry.MustRegister(compared) }

// Describe implements prometheus.Collector.
func (c *comparedCollector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.desc }

// Collect implements prometheus.Collector.
func (c *comparedCollector) Collect(values chan<- prometheus.Metric) {
	pods := c.pods.Load()
	if pods == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	list := &corev1.PodList{}
	if err := pods.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // until the cache is filled
	}
	for i := range list.Items {
		pod := &list.Items[i]
		group := groups[pod.Annotations[names.AnnotationHoldout]]
		if group == "" || !isInjected(pod) {
			continue
		}
		cluster := inject.ClusterOf(pod, pod.Namespace)
		values <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1,
			pod.Namespace, pod.Name, cluster.Namespace, cluster.Name, group)
	}
}
