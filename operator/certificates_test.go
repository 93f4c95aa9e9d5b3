// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/peercache/peercache/internal/ports"
)

// givenCertificate makes a folder for --webhook-certificates.
func givenCertificate(t *testing.T, host string) (folder string, certificate []byte) {
	t.Helper()
	certificate, privateKey, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": privateKey} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder, certificate
}

// whileServed runs a server until look returns, which gets the certificate that it serves at a port.
func whileServed(t *testing.T, start func(context.Context) error, port int, look func(*x509.Certificate)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the test compares the certificate itself
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			continue
		}
		served := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
		look(served)
		return
	}
}

// TestGivenCertificate checks that with --webhook-certificates the webhook serves the files there, and that the operator does not
// watch its own Secret.
func TestGivenCertificate(t *testing.T) {
	port, err := ports.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder, _ := givenCertificate(t, "given.example")
	config := options{namespace: "ns", webhook: webhookEnabled, webhookPort: port, certificates: folder}
	given, err := webhookCertificate(config)
	if err != nil {
		t.Fatal(err)
	}
	managed := managerOptions(config, given)
	for object := range managed.Cache.ByObject {
		if _, ok := object.(*corev1.Secret); ok {
			t.Error("Secrets are watched")
		}
	}
	whileServed(t, managed.WebhookServer.Start, port, func(served *x509.Certificate) {
		if served.VerifyHostname("given.example") != nil {
			t.Errorf("serves the certificate of %v", served.DNSNames)
		}
		if end := webhookExpiry(t); end != float64(served.NotAfter.Unix()) {
			t.Errorf("the metric says %v of a certificate until %s", end, served.NotAfter)
		}
	})
}

// TestMetricsByHTTPS checks that with --metrics-tls the metrics come with the certificate of the webhook.
func TestMetricsByHTTPS(t *testing.T) {
	port, err := ports.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder, _ := givenCertificate(t, "given.example")
	config := options{
		namespace: "ns", webhook: webhookEnabled, webhookPort: 9443, certificates: folder, metricsTLS: true,
		metricsAddress: fmt.Sprintf("127.0.0.1:%d", port),
	}
	given, err := webhookCertificate(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := metricsserver.NewServer(managerOptions(config, given).Metrics, &rest.Config{}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	whileServed(t, server.Start, port, func(served *x509.Certificate) {
		if served.VerifyHostname("given.example") != nil {
			t.Errorf("serves the certificate of %v", served.DNSNames)
		}
	})
}

// webhookExpiry is the metric, or 0 where it is not there.
func webhookExpiry(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "peercache_operator_webhook_certificate_expiry_timestamp_seconds" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}
