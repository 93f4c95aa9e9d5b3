// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// expiryMetric returns the label and the value of the metric, or "" where it is not there.
func expiryMetric(t *testing.T) (renewedBy string, expiry float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "peercache_operator_webhook_certificate_expiry_timestamp_seconds" {
			metric := family.GetMetric()[0]
			return metric.GetLabel()[0].GetValue(), metric.GetGauge().GetValue()
		}
	}
	return "", 0
}

// mounted writes a certificate as the kubelet does: into a new folder, to which the link "..data" then leads.
func mounted(t *testing.T, volume, version string, end time.Time) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(volume, version), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range secretUntil(t, end).Data {
		if err := os.WriteFile(filepath.Join(volume, version, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	link := filepath.Join(volume, "..data_tmp")
	if err := os.Symlink(version, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(volume, "..data")); err != nil {
		t.Fatal(err)
	}
}

// TestTheMetricFollowsAGivenCertificate checks the metric against what a server would serve, before and after a renewal.
func TestTheMetricFollowsAGivenCertificate(t *testing.T) {
	expiry.served.Store(nil)
	volume := t.TempDir()
	first, second := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(90*24*time.Hour).Truncate(time.Second)
	mounted(t, volume, "..1", first)
	given, err := NewGiven(volume)
	if err != nil {
		t.Fatal(err)
	}
	if by, at := expiryMetric(t); by != "" {
		t.Errorf("before a server serves it, the metric says %q, %v", by, at)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	given.ConfigureTLS(config)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- given.watcher.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	told := func() float64 {
		by, at := expiryMetric(t)
		if by != "other" {
			t.Fatalf("renewed by %q", by)
		}
		return at
	}
	if at := told(); at != float64(first.Unix()) {
		t.Errorf("the metric says %v of a certificate until %s", at, first)
	}
	renewed := make(chan struct{}, 2) // for the present certificate, then for the next one
	given.watcher.RegisterCallback(func(tls.Certificate) { renewed <- struct{}{} })
	<-renewed
	mounted(t, volume, "..2", second)
	if err := os.RemoveAll(filepath.Join(volume, "..1")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-renewed:
	case <-time.After(time.Minute):
		t.Fatal("the new certificate is not read")
	}
	if at := told(); at != float64(second.Unix()) {
		t.Errorf("the metric says %v of a certificate until %s", at, second)
	}
	certificate, err := config.GetCertificate(nil)
	if err != nil || !certificate.Leaf.NotAfter.Equal(second) {
		t.Errorf("serves %+v, %v", certificate, err)
	}
}

func TestAFolderWithoutCertificate(t *testing.T) {
	folder := t.TempDir()
	if _, err := NewGiven(folder); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("got %v", err)
	}
}
