// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	peerSecret = "kv-peers-tls"
	peerName   = "kv.peercache.internal"
)

// The first rollout meets nodes that do not speak TLS, so it also shows that neither kind keeps the other from
// starting.
func tlsSpecs() {
	It("when peers are made to speak TLS, and again when they are not", func(ctx context.Context) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peerSecret},
			Type:       corev1.SecretTypeTLS,
			Data:       peerCertificate(),
		}
		Expect(kube.Create(ctx, secret)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			setTLS(ctx, nil)
			Expect(kube.Delete(ctx, secret)).To(Succeed())
		}, NodeTimeout(4*time.Minute))
		setTLS(ctx, &v1alpha1.TLSSpec{SecretName: peerSecret, PeerName: peerName})

		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		wrote := writeAll(ctx, body)
		before := nodeMetrics(ctx, nodes.reader)
		got := reader.read(ctx, body)
		Expect(rightPages(reader, got, wrote.SHA256s)).To(Equal(body.Pages), "pages that hit")
		const remote = `peercache_read_hits_total{tier="remote"}`
		after := nodeMetrics(ctx, nodes.reader)
		Expect(after[remote]-before[remote]).To(BeNumerically(">=", body.Pages), "pages read from the other machine")
	}, SpecTimeout(4*time.Minute))
}

// setTLS waits until all nodes do as they are told.
func setTLS(ctx context.Context, tls *v1alpha1.TLSSpec) {
	changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Security.TLS = tls })
	waitForNodes(ctx)
	for _, node := range nodes.all() {
		values := nodeMetrics(ctx, node)
		if tls == nil {
			Expect(values["peercache_tls_enabled"]).To(BeZero(), "%s speaks TLS", node)
			continue
		}
		Expect(values["peercache_tls_enabled"]).To(BeEquivalentTo(1), "%s does not speak TLS", node)
		Expect(values["peercache_tls_certificate_expiry_timestamp_seconds"]).
			To(BeNumerically(">", time.Now().Unix()), "%s has another certificate", node)
	}
}

// peerCertificate is what cert-manager would put into the Secret, signed by a CA that nobody else has.
func peerCertificate() map[string][]byte {
	now := time.Now()
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		}
	}
	authority := template(1, "e2e peers")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	authorityKey := newKey()
	authorityDER := sign(authority, authority, authorityKey, authorityKey)

	leaf := template(2, peerName)
	leaf.DNSNames, leaf.KeyUsage = []string{peerName}, x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := newKey()
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	return map[string][]byte{
		corev1.TLSCertKey:       inPEM("CERTIFICATE", sign(leaf, authority, key, authorityKey)),
		corev1.TLSPrivateKeyKey: inPEM("PRIVATE KEY", keyDER),
		"ca.crt":                inPEM("CERTIFICATE", authorityDER),
	}
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	return key
}

func sign(certificate, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, certificate, by, &key.PublicKey, byKey)
	Expect(err).NotTo(HaveOccurred())
	return der
}

func inPEM(kind string, der []byte) []byte {
	var out bytes.Buffer
	Expect(pem.Encode(&out, &pem.Block{Type: kind, Bytes: der})).To(Succeed())
	return out.Bytes()
}
