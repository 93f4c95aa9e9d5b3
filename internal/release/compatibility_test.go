// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompatibilityIsWhatLanesRun: the page says "has run" of the versions that the tree pins, and names a lane for each.
func TestCompatibilityIsWhatLanesRun(t *testing.T) {
	const page = "docs/install/compatibility.md"
	rows := map[string]string{}
	for line := range strings.Lines(read(t, page)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			rows[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
		}
	}
	tools := "hack/lab/cluster/tools/"
	for _, test := range []struct {
		row, said, file, pinned string // both expressions find a version
	}{
		{"Kubernetes", `(1\.\d+): all tests`, tools + "kube/go.mod", `k8s\.io/kubernetes v(1\.\d+)`},
		{"attachment `DRA`", `(1\.\d+), with`, tools + "kube/go.mod", `k8s\.io/kubernetes v(1\.\d+)`},
		{"container runtime", `containerd (\d+)`, tools + "containerd/go.mod", `containerd/v2 v(\d+)`},
		{"second network", `Multus ([\d.]+)`, tools + "multus/go.mod", `multus-cni\.v4 v(\d+\.\d+)`},
		{"second network", `whereabouts ([\d.]+)`, tools + "whereabouts/go.mod", `/whereabouts v(\d+\.\d+)`},
		{"SGLang", `([\d.]+): `, "e2e/engine/requirements.txt", `(?m)^sglang==([\d.]+)`},
	} {
		said := regexp.MustCompile(test.said).FindStringSubmatch(rows[test.row])
		pinned := regexp.MustCompile(test.pinned).FindStringSubmatch(read(t, test.file))
		if said == nil || pinned == nil || said[1] != pinned[1] {
			t.Errorf("%s, row %q, names version %q; %s pins %q", page, test.row, said, test.file, pinned)
		}
	}
	lane := regexp.MustCompile("`make |all tests")
	for row, has := range rows {
		if title := row == "" || strings.Trim(row, "-") == ""; !title && has != "" && !lane.MatchString(has) {
			t.Errorf("%s says of %q that it has run, and names no lane: %s", page, row, has)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
