// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates for clients.
type Authority struct {
	// File has its own certificate.
	File        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority writes the certificate of a new CA into a folder.
func NewAuthority(folder string) (*Authority, error) {
	template := certificate("testenv")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	a := &Authority{File: filepath.Join(folder, "ca.crt"), certificate: template, key: key}
	return a, os.WriteFile(a.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// Issue makes a certificate for a client with a common name.
func (a *Authority) Issue(name string) (tls.Certificate, error) {
	template := certificate(name)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

// WebhookClient is the common name of the certificate that the API server shows to webhooks, which WebhookClients has signed.
const WebhookClient = "kube-apiserver"

// WebhookClients is the CA of that certificate.
var WebhookClients *Authority

// admissionConfig is a file that tells the API server to show webhooks a certificate, as one would be told in production.
func admissionConfig(folder string) (file string, err error) {
	if WebhookClients, err = NewAuthority(folder); err != nil {
		return "", err
	}
	shown, err := WebhookClients.Issue(WebhookClient)
	if err != nil {
		return "", err
	}
	key, err := x509.MarshalPKCS8PrivateKey(shown.PrivateKey)
	if err != nil {
		return "", err
	}
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name string, text []byte) { err = errors.Join(err, os.WriteFile(path(name), text, 0o600)) }
	write("client.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown.Certificate[0]}))
	write("client.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	// A file that begins with a brace is read as JSON.
	write("kubeconfig", fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": {
  "client-certificate": %q, "client-key": %q}}]}`, path("client.crt"), path("client.key")))
	write("admission.json", fmt.Appendf(nil, `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
  "plugins": [{"name": "MutatingAdmissionWebhook", "configuration": {
    "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": %q}}]}`, path("kubeconfig")))
	return path("admission.json"), err
}
