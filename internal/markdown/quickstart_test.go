// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// mostPageWords is what a reader of ten minutes reads of a page.
var mostPageWords = map[string]int{"docs/quickstart.md": 900, "README.md": 1500}

// TestQuickStartsAgree checks that the quick start has the command and the manifest of the README, which the end-to-end suite
// runs and applies (e2e/quickstart_test.go).
func TestQuickStartsAgree(t *testing.T) {
	const quickStart, readme, registry = "docs/quickstart.md", "README.md", "docs/install/from-a-registry.md"
	want := firstCluster(t, readme)
	if got := firstCluster(t, quickStart); !reflect.DeepEqual(got, want) {
		t.Errorf("the manifest of %s is %v, that of %s is %v", quickStart, got, readme, want)
	}
	command := installCommand(t, readme)
	for _, page := range []string{quickStart, registry} {
		if got := installCommand(t, page); got != command {
			t.Errorf("%s installs by %q, %s by %q", page, got, readme, command)
		}
	}
}

func TestFirstPagesAreShort(t *testing.T) {
	for page, most := range mostPageWords {
		text, err := os.ReadFile(root + "/" + page)
		if err != nil {
			t.Fatal(err)
		}
		if words := len(strings.Fields(string(text))); words > most {
			t.Errorf("%s has %d words, %d are the most", page, words, most)
		}
	}
}

// firstCluster is the first manifest of a page that has a PeerCacheCluster, without its comments.
func firstCluster(t *testing.T, file string) (documents []any) {
	t.Helper()
	page, err := Read(root + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range page.Blocks {
		if block.Language != "yaml" || !strings.Contains(block.Text, "kind: PeerCacheCluster\n") {
			continue
		}
		for text := range strings.SplitSeq(block.Text, "\n---\n") {
			var document any
			if err := yaml.Unmarshal([]byte(text), &document); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			documents = append(documents, document)
		}
		return documents
	}
	t.Fatalf("%s has no PeerCacheCluster", file)
	return nil
}

// installCommand is the first command of a page that installs the chart.
func installCommand(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range Commands(string(text), "helm") {
		if strings.HasPrefix(command, "helm upgrade --install ") {
			return command
		}
	}
	t.Fatalf("%s does not install the chart", file)
	return ""
}
