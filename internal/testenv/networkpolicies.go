// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package testenv

import (
	"bytes"
	"context"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// NetworkPolicies are the objects of config/admission.
func NetworkPolicies(t *testing.T) (objects []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(File(t, "config/admission/networks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// InstallNetworkPolicies makes those that are not there. They stay for other tests.
func InstallNetworkPolicies(t *testing.T) {
	t.Helper()
	c := Client(t)
	for _, object := range NetworkPolicies(t) {
		if err := c.Create(context.WithoutCancel(t.Context()), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}
