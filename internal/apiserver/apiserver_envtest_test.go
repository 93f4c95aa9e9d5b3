// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package apiserver

import (
	"net"
	"net/url"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestAPortThatOthersTookCostsATry(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	tried := 0
	environment, _, err := Start(func() *envtest.Environment {
		environment := &envtest.Environment{}
		if tried++; tried == 1 {
			environment.ControlPlane.Etcd = &envtest.Etcd{URL: &url.URL{Scheme: "http", Host: taken.Addr().String()}}
		}
		return environment
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := environment.Stop(); err != nil {
		t.Fatal(err)
	}
	if tried != 2 {
		t.Errorf("started at try %d, want 2", tried)
	}
}
