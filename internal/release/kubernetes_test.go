// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKubernetesVersions: the oldest version that chart, bundle and pages promise is one that tests run on, and the workflow
// runs them on each that can be built.
func TestKubernetesVersions(t *testing.T) {
	folders, err := filepath.Glob(root + "/hack/lab/cluster/tools/kube-1.*")
	if err != nil || len(folders) < 2 {
		t.Fatalf("%d versions can be built (error %v)", len(folders), err)
	}
	var built []string
	for _, folder := range folders {
		version := strings.TrimPrefix(filepath.Base(folder), "kube-")
		built = append(built, version)
		pinned := regexp.MustCompile(`(?m)^require k8s\.io/kubernetes v` + regexp.QuoteMeta(version) + `\.\d+ `)
		if text, err := os.ReadFile(folder + "/go.mod"); err != nil || !pinned.Match(text) {
			t.Errorf("%s/go.mod does not require Kubernetes %s (error %v)", folder, version, err)
		}
	}
	if run := workflows(t)["workflows/ci.yml"].Jobs["kubernetes"].Strategy.Matrix.Kubernetes; !slices.Equal(run, built) {
		t.Errorf("ci.yml runs the tests on %q, %q can be built", run, built)
	}
	for file, promise := range map[string]string{
		"charts/peercache/Chart.yaml":                 `kubeVersion: ">=(1\.\d+)\.0-0"`,
		"hack/release/olm/clusterserviceversion.yaml": `minKubeVersion: (1\.\d+)\.0`,
		"docs/quickstart.md":                          `Kubernetes (1\.\d+) or later`,
		"docs/install/tcp.md":                         `Kubernetes (1\.\d+) or later`,
		"docs/install/sriov.md":                       `Kubernetes (1\.\d+) or later`,
		"docs/install/roce-multus.md":                 `Kubernetes (1\.\d+) or later`,
		"SUPPORT.md":                                  `\| Kubernetes \| (1\.\d+) to `,
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(promise).FindSubmatch(text); found == nil || string(found[1]) != built[0] {
			t.Errorf("%s promises %q, tests run on Kubernetes %s", file, found, built[0])
		}
	}
}
