// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Given serves the certificate in a folder, which another program such as cert-manager makes and renews.
type Given struct{ watcher *certwatcher.CertWatcher }

// NewGiven reads the certificate in a folder.
func NewGiven(folder string) (*Given, error) {
	watcher, err := certwatcher.New(filepath.Join(folder, certKey), filepath.Join(folder, privateKey))
	if err != nil {
		return nil, fmt.Errorf("reading the webhook's certificate in %s: %w", folder, err)
	}
	return &Given{watcher: watcher}, nil
}

// Setup makes the manager read the certificate again when it changes.
func (g *Given) Setup(_ context.Context, mgr ctrl.Manager) error {
	if err := mgr.Add(g.watcher); err != nil {
		return fmt.Errorf("watching the webhook's certificate: %w", err)
	}
	return nil
}

// ConfigureTLS makes a server serve the current certificate.
func (g *Given) ConfigureTLS(config *tls.Config) { serve(config, byOther, g.watcher.GetCertificate) }
