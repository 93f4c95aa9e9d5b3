// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package v1alpha1_test

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// manifest is a PeerCacheCluster as a user would write it: what is left out is left to the API server.
func manifest(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(spec), &object.Object); err != nil {
		t.Fatalf("the test's manifest is no YAML: %v\n%s", err, spec)
	}
	object.SetAPIVersion("peercache.io/v1alpha1")
	object.SetKind("PeerCacheCluster")
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
