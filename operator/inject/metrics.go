// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var injections = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "peercache_operator_injections_total",
	Help: "Answers of the webhook, dry runs aside, by what became of the pod: connected, partly (some of its SGLang containers), " +
		"skipped or unreadable; and why: no_cluster (the one that it names cannot be used), unsuitable, or none.",
}, []string{"outcome", "reason"})

// The series that there are, so that the first of a kind is an increase and not a new series.
func init() {
	metrics.Registry.MustRegister(injections)
	for _, labels := range [][2]string{
		{"connected", "none"}, {"partly", "unsuitable"}, {"skipped", "no_cluster"}, {"skipped", "unsuitable"}, {"unreadable", "none"},
	} {
		injections.WithLabelValues(labels[0], labels[1])
	}
}

// count notes an answer; `known` says that the cluster could be read.
func count(result Result, known bool) {
	switch {
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
