// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
)

// TestOperatorNewerThanDefinition: the definition lacks what a newer operator writes into the status. The API server drops it; the
// operator goes on, and a settled cluster costs no writes but that of its status.
func TestOperatorNewerThanDefinition(t *testing.T) {
	changeDefinition(t, func(schema *apiextensionsv1.JSONSchemaProps) {
		status := schema.Properties["status"]
		maps.DeleteFunc(status.Properties, func(name string, _ apiextensionsv1.JSONSchemaProps) bool {
			return name != "conditions" && name != "observedGeneration"
		})
		schema.Properties["status"] = status
	})
	b := newBench(t)
	b.cluster()
	b.pass()
	b.startPods("default", true, true)
	b.pass()
	b.condition(v1alpha1.ConditionConfigAccepted, metav1.ConditionTrue, "Accepted", "")
	if seen := b.get().Status; seen.Members != "" {
		t.Fatalf("the definition is not the older one: %+v", seen)
	}
	before := b.get().ResourceVersion
	b.events()
	for range 3 {
		for _, write := range b.pass() {
			if !strings.HasSuffix(write, "/peercacheclusters/demo/status") {
				t.Errorf("a settled cluster causes %s", write)
			}
		}
	}
	if after := b.get().ResourceVersion; after != before {
		t.Errorf("the cluster changes, from version %s to %s", before, after)
	}
	if events := b.events(); len(events) > 0 {
		t.Errorf("events %q", events)
	}
}

// TestOperatorOlderThanDefinition: the definition has fields that the operator does not know. It leaves them as they are.
func TestOperatorOlderThanDefinition(t *testing.T) {
	changeDefinition(t, func(schema *apiextensionsv1.JSONSchemaProps) {
		for _, part := range []string{"spec", "status"} {
			properties := schema.Properties[part]
			properties.Properties["ofTheFuture"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			schema.Properties[part] = properties
		}
	})
	b := newBench(t)
	newer := &unstructured.Unstructured{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.cluster())
	b.must(err)
	newer.Object = content
	newer.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PeerCacheCluster"))
	for _, write := range []struct {
		part string
		do   func() error
	}{
		{"spec", func() error { return b.Update(b.Context(), newer) }},
		{"status", func() error { return b.Status().Update(b.Context(), newer) }},
	} {
		b.must(unstructured.SetNestedField(newer.Object, "kept", write.part, "ofTheFuture"))
		b.must(write.do())
	}
	b.pass()
	b.startPods("default", true)
	b.pass()
	b.condition(v1alpha1.ConditionConfigAccepted, metav1.ConditionTrue, "Accepted", "")
	b.read("demo", newer)
	for _, part := range []string{"spec", "status"} {
		if value, _, _ := unstructured.NestedString(newer.Object, part, "ofTheFuture"); value != "kept" {
			t.Errorf("%s.ofTheFuture is %q", part, value)
		}
	}
}

// changeDefinition changes the definition of PeerCacheCluster until the test ends, and waits until the API server uses it.
func changeDefinition(t *testing.T, change func(*apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	scheme := testenv.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(testenv.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context, change func(*apiextensionsv1.JSONSchemaProps)) error {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKey{Name: "peercacheclusters.peercache.io"}, definition); err != nil {
			return err
		}
		change(definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
		return c.Update(ctx, definition)
	}
	var former *apiextensionsv1.JSONSchemaProps
	if err := write(t.Context(), func(schema *apiextensionsv1.JSONSchemaProps) {
		former = schema.DeepCopy()
		change(schema)
		mark(schema)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // the context of the test has ended by now
		if err := write(ctx, func(schema *apiextensionsv1.JSONSchemaProps) { *schema = *former }); err != nil {
			t.Errorf("restoring the definition: %v", err)
			return
		}
		waitForMark(t, ctx, c, false)
	})
	waitForMark(t, t.Context(), c, true)
}

const marker = "definitionOfThisTest"

// mark adds a field by which the API server shows which definition it uses.
func mark(schema *apiextensionsv1.JSONSchemaProps) {
	spec := schema.Properties["spec"]
	spec.Properties[marker] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema.Properties["spec"] = spec
}

func waitForMark(t *testing.T, ctx context.Context, c client.Client, want bool) { //nolint:revive // t is first in tests
	t.Helper()
	testenv.Eventually(t, func() error {
		probe := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"memory": map[string]any{"pool": "1Gi"}, marker: "x"},
		}}
		probe.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PeerCacheCluster"))
		probe.SetNamespace("default")
		probe.SetName("probe")
		if err := c.Create(ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		if _, has, _ := unstructured.NestedString(probe.Object, "spec", marker); has != want {
			return errors.New("the API server uses the former definition")
		}
		return nil
	})
}
