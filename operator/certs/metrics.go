// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var expiry = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "peercache_operator_webhook_certificate_expiry_timestamp_seconds",
	Help: "When the certificate that this replica serves its webhook with expires; 0 while there is none.",
})

func init() { metrics.Registry.MustRegister(expiry) }
