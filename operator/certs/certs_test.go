// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
)

// secret returns a Secret with a new certificate, as cert-controller makes it.
func secret(t *testing.T) *corev1.Secret {
	t.Helper()
	return secretUntil(t, time.Now().Add(time.Hour))
}

func secretUntil(t *testing.T, end time.Time) *corev1.Secret {
	t.Helper()
	maker := &rotator.CertRotator{CAName: "ca", DNSName: ServiceName + ".ns.svc"}
	ca, err := maker.CreateCACert(time.Now().Add(-time.Hour), end)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{certKey: ca.CertPEM, privateKey: ca.KeyPEM}}
}

func newKeeper(t *testing.T) *Keeper {
	k := NewKeeper("ns")
	k.marker = t.TempDir()
	return k
}

func TestServerSpeaksHTTP1(t *testing.T) {
	k := newKeeper(t)
	if err := k.load(secret(t)); err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}} // as controller-runtime begins
	k.ConfigureTLS(config)
	here, there := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- tls.Server(there, config).HandshakeContext(t.Context()) }()
	// Which protocol is spoken is asked, not by whom.
	client := tls.Client(here, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err := errors.Join(client.HandshakeContext(t.Context()), <-served); err != nil {
		t.Fatal(err)
	}
	if got := client.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("speaks %s", got)
	}
}

func TestKeeperServesWhatTheSecretHolds(t *testing.T) {
	k := newKeeper(t)
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	k.ConfigureTLS(config)

	if _, err := config.GetCertificate(nil); err == nil || !strings.Contains(err.Error(), "ns/"+SecretName) {
		t.Errorf("without a certificate it says %v", err)
	}
	if err := k.load(&corev1.Secret{}); err != nil {
		t.Errorf("an empty Secret is no error: %v", err)
	}
	if err := k.ready(nil); err == nil || !strings.Contains(err.Error(), "no certificate yet") {
		t.Errorf("readiness says %v", err)
	}

	first := secret(t)
	if err := k.load(first); err != nil {
		t.Fatal(err)
	}
	served, err := config.GetCertificate(nil)
	if err != nil || served == nil {
		t.Fatalf("serves %v, %v", served, err)
	}
	if err := k.ready(nil); err == nil || !strings.Contains(err.Error(), ConfigurationName) {
		t.Errorf("ready before the API server knows the CA: %v", err)
	}
	close(k.renewed)
	if err := k.ready(nil); err != nil {
		t.Errorf("not ready: %v", err)
	}

	if err := k.load(secret(t)); err != nil {
		t.Fatal(err)
	}
	renewed, err := config.GetCertificate(nil)
	if err != nil || renewed == served {
		t.Errorf("a renewed certificate is not served: %v", err)
	}
	if by, at := expiryMetric(t); by != "operator" || at != float64(renewed.Leaf.NotAfter.Unix()) {
		t.Errorf("the metric says %q, %v of a certificate until %s", by, at, renewed.Leaf.NotAfter)
	}
}

func TestKeeperKeepsItsCertificateWhenTheSecretIsInvalid(t *testing.T) {
	k := newKeeper(t)
	good := secret(t)
	if err := k.load(good); err != nil {
		t.Fatal(err)
	}
	before := k.current.Load()
	for name, invalid := range map[string]map[string][]byte{
		"no key":      {certKey: good.Data[certKey]},
		"not PEM":     {certKey: []byte("x"), privateKey: []byte("y")},
		"another key": {certKey: good.Data[certKey], privateKey: secret(t).Data[privateKey]},
	} {
		if err := k.load(&corev1.Secret{Data: invalid}); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if k.current.Load() != before {
			t.Errorf("%s replaced the good certificate", name)
		}
	}
}

func TestThePrivateKeyIsNotWrittenToDisk(t *testing.T) {
	k := newKeeper(t)
	if err := k.load(secret(t)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(k.marker, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files are %q, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "PRIVATE KEY") {
		t.Errorf("%s holds the private key", files[0])
	}
}
