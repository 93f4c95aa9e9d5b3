// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestQuotedValues checks that the chart has the values that commands set, and those that pages name in code with a value.
func TestQuotedValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "charts/peercache/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, pattern := range []string{`--set '?([a-zA-Z][\w.]*)`, "`((?:rbac|csi|metrics|webhook|networkPolicy|image|dataplane|client|tracing)\\.[\\w.]+)="} {
		for path, page := range quotes(t, pattern) {
			checked++
			at := any(values)
			for key := range strings.SplitSeq(path, ".") {
				object, _ := at.(map[string]any)
				var has bool
				if at, has = object[key]; !has {
					t.Errorf("%s: the chart has no value %s", page, path)
					break
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d values were found", checked)
	}
}

// TestQuotedFolders checks that what `kubectl apply -k` is given is a kustomization.
func TestQuotedFolders(t *testing.T) {
	checked := 0
	for _, page := range read(t, "docs") {
		for _, table := range page.Tables {
			for i, head := range table.Head {
				if !strings.Contains(head, "kubectl apply --server-side -k") {
					continue
				}
				for _, row := range table.Rows {
					for _, folder := range regexp.MustCompile("`(config/[-a-z/]+)`").FindAllStringSubmatch(row[i], -1) {
						checked++
						if _, err := os.Stat(filepath.Join(root, folder[1], "kustomization.yaml")); err != nil {
							t.Errorf("%s:%d: %s is no kustomization", strings.TrimPrefix(page.File, root+"/"), table.Line, folder[1])
						}
					}
				}
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d folders were found", checked)
	}
}

// TestGuidesMakeNamespaces checks that a guide that puts a cache into a namespace makes that namespace. Readers begin with a
// cluster that has none.
func TestGuidesMakeNamespaces(t *testing.T) {
	guides := 0
	for _, page := range read(t, "docs/install") {
		text, err := os.ReadFile(page.File)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range page.Blocks {
			if !strings.Contains(block.Text, "kind: PeerCacheCluster\n") {
				continue
			}
			namespace := regexp.MustCompile(`namespace: ([-a-z]+)`).FindStringSubmatch(block.Text)
			if namespace == nil {
				t.Errorf("%s:%d: the cache has no namespace", page.File, block.Line)
				continue
			}
			guides++
			if !strings.Contains(string(text), "kubectl create namespace "+namespace[1]+"\n") &&
				!strings.Contains(block.Text, "kind: Namespace\nmetadata: {name: "+namespace[1]+"}") {
				t.Errorf("%s:%d: nothing makes namespace %s", strings.TrimPrefix(page.File, root+"/"), block.Line, namespace[1])
			}
		}
	}
	if guides < 5 {
		t.Errorf("only %d caches were found", guides)
	}
}
