// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/peercache/peercache/internal/ports"
)

// TestGivenCertificate checks that with --webhook-certificates the webhook serves the files there, and that the operator does not
// watch its own Secret.
func TestGivenCertificate(t *testing.T) {
	folder := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("given.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port, err := ports.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- managed.WebhookServer.Start(ctx) }()
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
		if served.VerifyHostname("given.example") != nil {
			t.Errorf("serves the certificate of %v", served.DNSNames)
		}
		if end := webhookExpiry(t); end != float64(served.NotAfter.Unix()) {
			t.Errorf("the metric says %v of a certificate until %s", end, served.NotAfter)
		}
		return
	}
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
