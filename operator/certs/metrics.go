// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The values of the label renewed_by.
const (
	byOperator = "operator"
	byOther    = "other"
)

// getCertificate is the callback by which a TLS server asks for its certificate.
type getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// serve makes a server serve what get returns, and the metric describe it.
func serve(config *tls.Config, renewedBy string, get getCertificate) {
	config.MinVersion = tls.VersionTLS12
	config.NextProtos = []string{"http/1.1"} // a connection of HTTP/2 holds a megabyte for reviews that wait unread
	config.GetCertificate = get
	expiry.served.Store(&served{renewedBy: renewedBy, get: get})
}

// served is the certificate of the webhook in this process.
type served struct {
	renewedBy string
	get       getCertificate
}

// expiryCollector asks for the served certificate at every scrape, as a TLS server does at every handshake. So the metric
// follows a renewal without being told.
type expiryCollector struct {
	desc   *prometheus.Desc
	served atomic.Pointer[served]
}

var expiry = &expiryCollector{desc: prometheus.NewDesc("peercache_operator_webhook_certificate_expiry_timestamp_seconds",
	"When the certificate expires that this replica serves its webhook with, and who renews it: "+byOperator+" or "+byOther+
		" (cert-manager, OLM). Not there while there is none.", []string{"renewed_by"}, nil)}

func init() { metrics.Registry.MustRegister(expiry) }

// Describe implements prometheus.Collector.
func (e *expiryCollector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- e.desc }

// Collect implements prometheus.Collector.
func (e *expiryCollector) Collect(values chan<- prometheus.Metric) {
	served := e.served.Load()
	if served == nil {
		return
	}
	certificate, err := served.get(nil)
	if err != nil || certificate == nil || certificate.Leaf == nil { // handshakes fail, and say why
		return
	}
	values <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(certificate.Leaf.NotAfter.Unix()), served.renewedBy)
}
