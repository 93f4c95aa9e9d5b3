// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
)

const defaulted = `{"discovery":{"port":31998,"replicas":3},"engines":{"vllm":{"hostMemory":"4Gi"}},"imagePullPolicy":"IfNotPresent",` +
	`"injection":{"by":"Webhook","bypass":"Disabled","client":{"delivery":"InitContainer","imagePullPolicy":"IfNotPresent"},"missedPods":"Report","mode":"Node","socket":"HostPath"},` +
	`"layout":"PerNUMA","memory":{"hugePages":"None","pool":"1Gi"},"mode":"Apply","monitoring":{"dashboards":"None","port":31997,"rules":"None","scrape":"None"},"nodes":{},` +
	`"resources":{"cpu":"1","memoryOverhead":"512Mi"},"security":{"networkPolicy":"Peers","peers":"Token"},"sharing":"Namespace","timing":{"heartbeatMilliseconds":500,"leaseMilliseconds":1000,` +
	`"memberTTLMilliseconds":3000,"peerTimeoutMilliseconds":1000},"transport":"TCP","update":{"strategy":"InPlace"}}`

func TestDefaults(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	tests := map[string]client.Object{
		"written by hand": manifest(t, namespace, "hand", "spec: {memory: {pool: 1Gi}}"),
		"written in Go": &v1alpha1.PeerCacheCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "code"},
			Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
		},
	}
	for name, object := range tests {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			stored := manifest(t, "", "", "")
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(stored.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != defaulted {
				t.Errorf("got\n%s, want\n%s", got, defaulted)
			}
		})
	}
}

// TestANewClusterIsNotObserved: kstatus takes an object without observedGeneration for current, so Flux would not wait.
func TestANewClusterIsNotObserved(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	cluster := manifest(t, namespace, "new", "spec: {memory: {pool: 1Gi}}")
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	if seen, _, err := unstructured.NestedInt64(cluster.Object, "status", "observedGeneration"); err != nil || seen != -1 {
		t.Errorf("observedGeneration is %d, %v, want -1", seen, err)
	}
}

func TestDiskDefaults(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	object := manifest(t, namespace, "disk", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, volumeClaim: {storageClassName: a}}}")
	if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(object.Object["spec"].(map[string]any)["disk"])
	if want := `{"io":"Auto","size":"1Gi","volumeClaim":{"count":1,"storageClassName":"a"},"writeBudget":"1"}`; err != nil || string(got) != want {
		t.Errorf("got %s, want %s (%v)", got, want, err)
	}
}

// TestNamespaceSelectors checks that the API server keeps a selector of all namespaces apart from none, which selects no other.
func TestNamespaceSelectors(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	for name, test := range map[string]struct {
		spec string
		want *metav1.LabelSelector
	}{
		"own": {"spec: {memory: {pool: 1Gi}}", nil},
		"all": {"spec: {memory: {pool: 1Gi}, injection: {namespaceSelector: {}}}", &metav1.LabelSelector{}},
	} {
		object := manifest(t, namespace, name, test.spec)
		if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Fatal(err)
		}
		stored := &v1alpha1.PeerCacheCluster{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
			t.Fatal(err)
		}
		if got := stored.Spec.Injection.NamespaceSelector; !equality.Semantic.DeepEqual(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: the selector is %+v, want %+v", name, got, test.want)
		}
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found samples %q, %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
				sample := &unstructured.Unstructured{}
				if err := yaml.UnmarshalStrict(document, &sample.Object); err != nil {
					t.Fatal(err)
				}
				if testenv.Unserved(t, sample) {
					continue
				}
				sample.SetNamespace(namespace)
				if err := c.Create(t.Context(), sample, client.FieldValidation("Strict")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
