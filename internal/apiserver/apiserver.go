// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts a real kube-apiserver and its etcd on this machine, for tests and for `make scale`.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/peercache/peercache/internal/ports"
)

// Assets is the environment variable that names the folder of kube-apiserver and etcd.
const Assets = "KUBEBUILDER_ASSETS"

const tries = 4

// These end what hangs: on a busy machine a start takes minutes, and is no faster when it begins anew.
const startTimeout, stopTimeout = 10 * time.Minute, time.Minute

// Start starts what build makes, and returns it with the administrator's configuration. Whoever calls it stops it.
//
// Somebody who claims no ports may still take one before etcd or kube-apiserver listens there. Further tries of envtest
// use the same ports, so each try here is of a new environment.
func Start(build func() *envtest.Environment) (*envtest.Environment, *rest.Config, error) {
	var failures []error
	for range tries {
		environment := build()
		if err := choosePorts(environment); err != nil {
			return nil, nil, err
		}
		environment.ControlPlaneStartTimeout, environment.ControlPlaneStopTimeout = startTimeout, stopTimeout
		environment.CRDInstallOptions.MaxTime = startTimeout
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

// choosePorts claims the ports that build has not chosen. Those that envtest would choose are of the ones that the kernel
// also gives to connections.
func choosePorts(environment *envtest.Environment) error {
	if environment.ControlPlane.Etcd == nil {
		environment.ControlPlane.Etcd = &envtest.Etcd{}
	}
	ctx := context.Background()
	etcd, apiServer := environment.ControlPlane.Etcd, environment.ControlPlane.GetAPIServer()
	if etcd.URL == nil {
		address, err := ports.Address(ctx)
		if err != nil {
			return err
		}
		etcd.URL = &url.URL{Scheme: "http", Host: address}
	}
	peers, err := ports.Address(ctx)
	if err != nil {
		return err
	}
	etcd.Configure().Set("listen-peer-urls", "http://"+peers)
	port, err := ports.Claim(ctx)
	if err != nil {
		return err
	}
	apiServer.Address, apiServer.Port = "127.0.0.1", strconv.Itoa(port)
	return nil
}
