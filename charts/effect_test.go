// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestEveryValueHasAnEffect: whatever is changed in values.yaml changes what is rendered, where everything is enabled.
func TestEveryValueHasAnEffect(t *testing.T) {
	var values map[string]any
	parse(t, "peercache/values.yaml", &values)
	enable(values)
	at(values, "webhook.certManager.issuerRef")["name"] = "ours" // without one there is no kind and no group
	at(values, "webhook.clientCA")["configMapName"] = "ours"     // without one there are no names
	before := renderValues(t, values)
	for _, leaf := range leaves("", values) {
		if leaf == "watchNamespaces" { // TestWatchNamespaces: it goes with less than everything
			continue
		}
		t.Run(leaf, func(t *testing.T) {
			t.Parallel()
			changed := copied(t, values)
			path, key := "", leaf
			if dot := strings.LastIndex(leaf, "."); dot >= 0 {
				path, key = leaf[:dot], leaf[dot+1:]
			}
			holder := at(changed, path)
			was := holder[key]
			holder[key] = another(t, leaf, was)
			if leaf == "webhook.enabled" { // TestMetricsNeedACertificate
				at(changed, "metrics.tls")["enabled"] = false
			}
			if renderValues(t, changed) == before {
				t.Errorf("%v instead of %v changes nothing", holder[key], was)
			}
		})
	}
}

// others are values of a form of their own.
var others = map[string]any{
	"logLevel":                        "debug",
	"tracing.endpoint":                "http://collector:4318",
	"metrics.runbooks":                "https://wiki.example.com/peercache",
	"image.pullPolicy":                "Always",
	"networkPolicy.metricsFrom":       []any{map[string]any{"podSelector": map[string]any{}}},
	"rbac.namespaces":                 []any{"inference"},
	"openshift.members":               []any{map[string]any{"namespace": "inference", "cluster": "kv"}},
	"webhook.clientCA.commonNames":    []any{"kube-apiserver"},
	"rbac.networks.namespaces":        []any{"inference"},
	"rbac.missedPods.namespaces":      []any{"inference"},
	"metrics.podMonitors.interval":    "15s",
	"metrics.serviceMonitor.interval": "15s",
}

func another(t *testing.T, leaf string, value any) any {
	t.Helper()
	if other, ok := others[leaf]; ok {
		return other
	}
	switch value := value.(type) {
	case bool:
		return !value
	case float64:
		return value + 1
	case string:
		return value + "x"
	case []any:
		return append(slices.Clone(value), map[string]any{"name": "x"})
	case map[string]any:
		return map[string]any{"x": "y"}
	}
	t.Fatalf("value %v is of an unknown kind", value)
	return nil
}

// leaves are the paths of what is no mapping, or an empty one.
func leaves(path string, values map[string]any) (found []string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		below := strings.TrimPrefix(path+"."+key, ".")
		if inner, ok := values[key].(map[string]any); ok && len(inner) > 0 && key != "nodeSelector" {
			found = append(found, leaves(below, inner)...)
		} else {
			found = append(found, below)
		}
	}
	return found
}

func enable(values map[string]any) {
	for key, value := range values {
		if inner, ok := value.(map[string]any); ok {
			enable(inner)
		} else if key == "enabled" {
			values[key] = true
		}
	}
}

func at(values map[string]any, path string) map[string]any {
	if path == "" {
		return values
	}
	for key := range strings.SplitSeq(path, ".") {
		values, _ = values[key].(map[string]any)
	}
	return values
}

func copied(t *testing.T, values map[string]any) (copied map[string]any) {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

func renderValues(t *testing.T, values map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	write(t, file, string(text))
	stdout, stderr, err := run(t.Context(), program(t, "HELM", "helm"), "template", release, "peercache", "--namespace", namespace,
		"--kube-version", kubeVersion, "--values", file)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	return stdout
}
