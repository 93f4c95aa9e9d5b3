// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts a real kube-apiserver and its etcd on this machine, for tests and for `make scale`.
package apiserver

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Assets is the environment variable that names the folder of kube-apiserver and etcd.
const Assets = "KUBEBUILDER_ASSETS"

const tries = 4

// Start starts what build makes, and returns it with the administrator's configuration. Whoever calls it stops it.
//
// envtest chooses free ports of those that the kernel also gives to connections, and one may be taken before etcd or
// kube-apiserver listens there. Its own further tries use the same ports, so each try here is of a new environment.
func Start(build func() *envtest.Environment) (*envtest.Environment, *rest.Config, error) {
	var failures []error
	for range tries {
		environment := build()
		config, err := environment.Start()
		if err == nil {
			return environment, config, nil
		}
		failures = append(failures, err)
		if err := environment.Stop(); err != nil { // one of the two may run
			failures = append(failures, fmt.Errorf("stopping them: %w", err))
		}
	}
	return nil, nil, fmt.Errorf("starting kube-apiserver and etcd from %s=%s, %d times: %w", Assets, os.Getenv(Assets),
		tries, errors.Join(failures...))
}
