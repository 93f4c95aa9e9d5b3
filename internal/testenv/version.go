// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package testenv

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
)

// Minor is the minor version of the API server: 36 in the lanes, and what KUBERNETES says for `make test-kubernetes`.
func Minor(t *testing.T) int {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(Config())
	if err != nil {
		t.Fatal(err)
	}
	version, err := c.ServerVersion()
	if err != nil {
		t.Fatalf("asking the API server for its version: %v", err)
	}
	minor, err := strconv.Atoi(version.Minor)
	if err != nil {
		t.Fatalf("the API server is of minor version %q: %v", version.Minor, err)
	}
	return minor
}

// Since skips a test of what Kubernetes serves from 1.MINOR on. What PeerCache says on older ones, another test checks.
func Since(t *testing.T, minor int, what string) {
	t.Helper()
	if got := Minor(t); got < minor {
		t.Skipf("Kubernetes 1.%d has no %s, which comes with 1.%d", got, what, minor)
	}
}

// Unserved is true for objects of DRA, which pages and tools write, on an API server that is older than their kinds.
func Unserved(t *testing.T, object *unstructured.Unstructured) bool {
	t.Helper()
	return object.GetAPIVersion() == "resource.k8s.io/v1" && Minor(t) < 34
}
