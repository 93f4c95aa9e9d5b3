// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Askers are those whom the webhook answers: by default whoever reaches its port. An API server asks with a certificate where it is
// told to (--admission-control-config-file).
type Askers struct {
	// CA is a file with the certificates of CAs, one of which signs the asker's. "" means that everybody may ask. It is read for each
	// review, so it may be replaced.
	CA string
	// Names are common names, one of which the asker's certificate has; none means any.
	Names []string
}

// Check reads the file once.
func (a Askers) Check() error {
	if a.CA == "" {
		return nil
	}
	_, err := a.roots()
	return err
}

// ConfigureTLS lets the webhook's server ask for the certificates of askers. Who has none is refused by an answer that says why,
// and not by an end of the connection: the readiness probe makes connections too, and asks nothing.
func (a Askers) ConfigureTLS(config *tls.Config) {
	if a.CA != "" {
		config.ClientAuth = tls.RequestClientCert
	}
}

// refuses returns why whoever sends a request gets no answer, or nil. TLS has seen that the sender has the certificate's key.
func (a Askers) refuses(r *http.Request) error {
	if a.CA == "" {
		return nil
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return errors.New("the asker shows no certificate: configure the API server to (--admission-control-config-file), " +
			"or run the operator without --webhook-client-ca")
	}
	roots, err := a.roots()
	if err != nil {
		return err
	}
	asker, others := r.TLS.PeerCertificates[0], x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		others.AddCert(certificate)
	}
	if _, err := asker.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: others, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return fmt.Errorf("the asker's certificate is not one of --webhook-client-ca: %w", err)
	}
	if len(a.Names) > 0 && !slices.Contains(a.Names, asker.Subject.CommonName) {
		return fmt.Errorf("the asker's certificate is of %q, and --webhook-client-names has %s", asker.Subject.CommonName,
			strings.Join(a.Names, ", "))
	}
	return nil
}

func (a Askers) roots() (*x509.CertPool, error) {
	text, err := os.ReadFile(a.CA)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of those who may ask the webhook: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate of a CA: write it there as PEM", a.CA)
	}
	return roots, nil
}
