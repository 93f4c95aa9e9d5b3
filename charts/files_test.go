// SPDX-License-Identifier: Apache-2.0

// Package charts tests the Helm chart and the kustomize bases. The tests here need no program; those that run
// helm and kustomize carry the build tag render, and those on a real kube-apiserver also envtest.
package charts

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestGeneratedFiles: the chart holds what controller-gen wrote, the roles of config/rights, the alerts and the dashboards, byte for byte.
func TestGeneratedFiles(t *testing.T) {
	generated, err := filepath.Glob("../config/crd/peercache.io_*.yaml")
	if err != nil || len(generated) == 0 {
		t.Fatalf("no CRD in config/crd (error %v)", err)
	}
	pairs := map[string]string{
		"../config/rbac/role.yaml":                 "peercache/files/rbac/role.yaml",
		"../config/prometheus/operator-rules.yaml": "peercache/files/prometheus/operator-rules.yaml",
	}
	rights, err := filepath.Glob("../config/rights/*/role.yaml")
	if err != nil || len(rights) == 0 {
		t.Fatalf("no roles in config/rights (error %v)", err)
	}
	for _, file := range rights {
		pairs[file] = filepath.Join("peercache/files/rights", filepath.Base(filepath.Dir(file))+".yaml")
	}
	for _, file := range generated {
		pairs[file] = filepath.Join("peercache/files/crd", filepath.Base(file))
	}
	boards, err := filepath.Glob("../config/grafana/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatalf("no dashboards in config/grafana (error %v)", err)
	}
	for _, file := range boards {
		pairs[file] = filepath.Join("peercache/files/grafana", filepath.Base(file))
	}
	for source, copied := range pairs {
		if read(t, source) != read(t, copied) {
			t.Errorf("charts/%s is not %s: run `make chart-files`", copied, strings.TrimPrefix(source, "../"))
		}
	}
	for folder, want := range map[string]int{"crd": len(generated), "rights": len(rights), "grafana": len(boards)} {
		copies, err := filepath.Glob("peercache/files/" + folder + "/*")
		if err != nil || len(copies) != want {
			t.Errorf("%d files in %s of the chart, %d in config (error %v)", len(copies), folder, want, err)
		}
	}
}

// TestVersions: the chart, its images and the kustomize base are of the version in VERSION.
func TestVersions(t *testing.T) {
	version := strings.TrimSpace(read(t, "../VERSION"))
	var chart struct{ Version, AppVersion string }
	parse(t, "peercache/Chart.yaml", &chart)
	if chart.Version != version || chart.AppVersion != version {
		t.Errorf("Chart.yaml says version %s and appVersion %s, VERSION says %s", chart.Version, chart.AppVersion, version)
	}
	for file, count := range map[string]int{"../config/manager/deployment.yaml": 3, "../config/csi/daemonset.yaml": 1, "peercache/Chart.yaml": 3} {
		images := regexp.MustCompile(`peercache/(?:operator|dataplane|client):(\S+)`).FindAllStringSubmatch(read(t, file), -1)
		if len(images) != count {
			t.Errorf("%s names %d images, want %d", file, len(images), count)
		}
		for _, image := range images {
			if image[1] != version {
				t.Errorf("%s names %s, VERSION says %s", file, image[0], version)
			}
		}
	}
}

// TestSchemaIsComplete: the schema describes every value and refuses every other.
func TestSchemaIsComplete(t *testing.T) {
	var values, schema map[string]any
	parse(t, "peercache/values.yaml", &values)
	if err := json.Unmarshal([]byte(read(t, "peercache/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	definitions, _ := schema["definitions"].(map[string]any)
	var check func(path string, value any, schema map[string]any)
	check = func(path string, value any, schema map[string]any) {
		if ref, ok := schema["$ref"].(string); ok {
			if name, ok := strings.CutPrefix(ref, "#/definitions/"); ok && !strings.Contains(name, "/") {
				schema, _ = definitions[name].(map[string]any)
			}
		}
		properties, ok := schema["properties"].(map[string]any)
		object, isObject := value.(map[string]any)
		if !isObject || !ok {
			return
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s: the schema accepts unknown keys", path)
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			property, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("%s.%s is not in values.schema.json", path, key)
				continue
			}
			check(path+"."+key, object[key], property)
		}
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			if _, ok := object[key]; !ok && key != "global" && key != "claims" {
				t.Errorf("%s.%s is in values.schema.json, but not in values.yaml", path, key)
			}
		}
	}
	check("values", values, schema)
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
