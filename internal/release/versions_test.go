// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPageVersions: what the page on registries and the guides install is the version in VERSION, and the changelog knows it.
func TestPageVersions(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	version := strings.TrimSpace(read("VERSION"))
	page := regexp.MustCompile(`lmsysorg/sglang:\S+`).ReplaceAllString(read("docs/install/from-a-registry.md"), "") // has versions of its own
	named := regexp.MustCompile(`(?:--version |==|[:v])([0-9]+\.[0-9]+\.[0-9]+)\b`).FindAllStringSubmatch(page, -1)
	for _, one := range named {
		if one[1] != version {
			t.Errorf("docs/install/from-a-registry.md has %q, VERSION says %s", one[0], version)
		}
	}
	if len(named) < 8 {
		t.Errorf("only %d versions were found", len(named))
	}
	for _, guide := range []string{"tcp", "roce-multus", "sriov", "dra"} {
		if chart := "/charts/peercache --version " + version + " "; !strings.Contains(read("docs/install/"+guide+".md"), chart) {
			t.Errorf("docs/install/%s.md does not install the chart of version %s", guide, version)
		}
	}
	for _, page := range []string{"README.md", "docs/quickstart.md"} {
		if chart := "oci://" + registry + "/charts/peercache --version " + version + " "; !strings.Contains(read(page), chart) {
			t.Errorf("%s does not install the published chart of version %s", page, version)
		}
	}
	if !strings.Contains(read("CHANGELOG.md"), "\n## ["+version+"]") {
		t.Errorf("CHANGELOG.md has no heading [%s]", version)
	}
}
