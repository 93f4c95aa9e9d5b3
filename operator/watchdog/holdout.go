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
)

// scrapeTimeout bounds the wait for a cache that is not filled yet.
const scrapeTimeout = time.Second

// podReader is the cache of engine pods.
type podReader struct{ client.Reader }

// comparedCollector lists the connected pods and those that are held out at every scrape.
type comparedCollector struct {
	desc *prometheus.Desc
	pods atomic.Pointer[podReader]
}

var compared = &comparedCollector{desc: prometheus.NewDesc("peercache_operator_compared_pod",
	"1 for each engine pod that is connected to a cluster (group cache), or that its cluster holds out (group holdout).",
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
		if !isInjected(pod) {
			continue
		}
		group := "cache"
		if !isConnected(pod) {
			group = "holdout"
		}
		cluster := inject.ClusterOf(pod, pod.Namespace)
		values <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1,
			pod.Namespace, pod.Name, cluster.Namespace, cluster.Name, group)
	}
}
