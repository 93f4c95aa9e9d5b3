// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var injections = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "peercache_operator_injections_total",
	Help: "Answers of the webhook, dry runs aside, by what became of the pod: connected, partly (some of its engines' containers, " +
		"or without flags), skipped or unreadable, or refused, because the caller is not allowed to ask; and why: " +
		"no_cluster (the one that it names cannot be used), no_flags, unsuitable, or none.",
}, []string{"outcome", "reason"})

// All series exist from the start, so that the first event is an increase of a series.
func init() {
	metrics.Registry.MustRegister(injections)
	for _, labels := range [][2]string{
		{"connected", "none"}, {"partly", "no_flags"}, {"partly", "unsuitable"}, {"skipped", "no_cluster"}, {"skipped", "unsuitable"},
		{"unreadable", "none"}, {"refused", "none"},
	} {
		injections.WithLabelValues(labels[0], labels[1])
	}
}

// count counts an answer. known is true where the cluster could be read.
func count(result Result, known bool) {
	switch {
	case result.Partly:
		injections.WithLabelValues("partly", "no_flags").Inc()
	case result.Injected && result.SkipReason == "":
		injections.WithLabelValues("connected", "none").Inc()
	case result.Injected:
		injections.WithLabelValues("partly", "unsuitable").Inc()
	case known:
		injections.WithLabelValues("skipped", "unsuitable").Inc()
	default:
		injections.WithLabelValues("skipped", "no_cluster").Inc()
	}
}
