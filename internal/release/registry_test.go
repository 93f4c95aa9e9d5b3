// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/peercache/peercache/internal/markdown"
)

// registry is where a release is published. Everything that names an image names it there.
const registry = "ghcr.io/peercache/peercache"

func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestOneRegistry: chart, kustomize bases, operator, plug-in, scripts and pages name the images of the same registry.
func TestOneRegistry(t *testing.T) {
	for file, times := range map[string]int{
		"charts/peercache/values.yaml": 3, "charts/peercache/Chart.yaml": 3, "config/manager/deployment.yaml": 3,
		"config/csi/daemonset.yaml": 1, "operator/flags.go": 2, "kubectl/inject.go": 2, "docs/install/from-a-registry.md": 2,
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`([\w.-]+(?:/[\w.-]+)+)/(operator|dataplane|client)\b["':`+"`"+`\n]`).FindAllStringSubmatch(string(text), -1)
		ours := 0
		for _, image := range found {
			switch {
			case image[1] == registry:
				ours++
			case strings.HasPrefix(image[1], "docker.io/"), strings.HasPrefix(image[1], "ghcr.io/"):
				t.Errorf("%s names %s/%s, which is not of %s", file, image[1], image[2], registry)
			}
		}
		if ours < times {
			t.Errorf("%s names %d images of %s, want %d", file, ours, registry, times)
		}
	}
	targets, err := os.ReadFile(filepath.Join(root, "hack/release/images/targets.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(targets), "\nREGISTRY=${PEERCACHE_REGISTRY:-"+registry+"}\n") {
		t.Errorf("hack/release/images/targets.sh builds images of another registry than %s", registry)
	}
}

// TestCommandsFitARegistry: every command of the pages that installs or changes PeerCache fits an installation from a registry. A
// chart of the source tree, values of an earlier chart or a tag would replace the digests that the registry's chart names.
func TestCommandsFitARegistry(t *testing.T) {
	files, err := markdown.Files(root, "README.md", "SUPPORT.md", "docs", "charts/peercache/README.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page := strings.TrimPrefix(file, root+"/")
		commands := append(markdown.Commands(string(text), "helm"), markdown.Commands(string(text), "kubectl")...)
		for _, command := range commands {
			fault, concerned := commandFault(version(t), command)
			if fault != "" {
				t.Errorf("%s: %s: %s", page, command, fault)
			}
			if concerned {
				checked++
			}
		}
		if tag := regexp.MustCompile(`docker\.io/peercache\S*`).FindString(string(text)); tag != "" {
			t.Errorf("%s names %s, which is published nowhere", page, tag)
		}
	}
	if checked < 15 {
		t.Errorf("only %d commands were found", checked)
	}
}

var (
	chartOf      = regexp.MustCompile(`^oci://(` + regexp.QuoteMeta(registry) + `|registry\.example\.com/peercache|MIRROR)/charts/peercache$`)
	imageValue   = regexp.MustCompile(`(?:^|[ ,.])image\.(?:tag|repository)=|\.image\.(?:tag|repository)=`)
	ownWithout   = []string{"rollback", "uninstall", "get"} // take the release alone
	withoutChart = []string{"version", "registry", "template"}
)

// commandFault says what is wrong with a command of a page, and whether it is one that installs or changes PeerCache.
func commandFault(version, command string) (fault string, concerned bool) {
	words := strings.Fields(command)
	if words[0] == "kubectl" {
		return kubectlFault(words)
	}
	if len(words) < 3 || slices.Contains(withoutChart, words[1]) {
		return "", false
	}
	has := func(options ...string) bool {
		return slices.ContainsFunc(options, func(option string) bool { return strings.Contains(command+" ", " "+option+" ") })
	}
	if words[1] != "show" {
		switch {
		case !has("peercache"):
			return "the release is not called peercache", true
		case !has("-n peercache-system", "--namespace peercache-system"):
			return "write -n peercache-system", true
		}
	}
	if slices.Contains(ownWithout, words[1]) {
		return "", true
	}
	chart := slices.IndexFunc(words, func(word string) bool { return strings.Contains(word, "charts/peercache") })
	switch {
	case chart < 0:
		return "it names no chart", true
	case !chartOf.MatchString(words[chart]):
		return words[chart] + " is no chart of a registry", true
	case !has("--version "+version, "--version NEW"):
		return "write --version " + version + ", or --version NEW for an upgrade", true
	case imageValue.MatchString(command):
		return "it sets an image, which the chart names by its digest", true
	case has("--reuse-values"):
		return "--reuse-values keeps the images of the former chart: write --reset-then-reuse-values", true
	case words[1] == "upgrade" && !has("--install", "--reset-then-reuse-values", "-f values.yaml"):
		return "it forgets the values that were set: write --reset-then-reuse-values", true
	}
	return "", true
}

// kubectlFault: what `kubectl apply -k` is given is a kustomization of this tree, whose images are those of the release.
func kubectlFault(words []string) (fault string, concerned bool) {
	if slices.ContainsFunc(words, func(word string) bool {
		return strings.HasPrefix(word, "--for=jsonpath='{.status.image}'=") && !strings.HasSuffix(word, `="$image"`)
	}) {
		return "a registry's chart names the image by digest: wait for the one that the operator has", true
	}
	at := slices.Index(words, "-k")
	if at < 0 || words[1] != "apply" || at+1 == len(words) {
		return "", false
	}
	if _, err := os.Stat(filepath.Join(root, words[at+1], "kustomization.yaml")); err != nil {
		return words[at+1] + " is no kustomization", true
	}
	return "", true
}

func TestCommandFault(t *testing.T) {
	const end = " -n peercache-system"
	chart := "oci://" + registry + "/charts/peercache"
	for command, want := range map[string]string{
		"helm upgrade --install peercache " + chart + " --version 1.2.3" + end:                              "",
		"helm upgrade peercache " + chart + " --version 1.2.3 --reset-then-reuse-values" + end:              "",
		"helm upgrade peercache charts/peercache --version 1.2.3 --reset-then-reuse-values" + end:           "no chart of a registry",
		"helm upgrade peercache oci://ghcr.io/else/charts/peercache --version 1.2.3" + end:                  "no chart of a registry",
		"helm upgrade peercache " + chart + " --reset-then-reuse-values" + end:                              "--version",
		"helm upgrade peercache " + chart + " --version 1.2.2 --reset-then-reuse-values" + end:              "--version",
		"helm upgrade peercache " + chart + " --version 1.2.3 --reuse-values" + end:                         "--reset-then-reuse-values",
		"helm upgrade peercache " + chart + " --version 1.2.3 --set replicas=1" + end:                       "forgets the values",
		"helm upgrade --install peercache " + chart + " --version 1.2.3 --set client.image.tag=1.2.3" + end: "digest",
		"helm upgrade --install peercache " + chart + " --version 1.2.3":                                    "-n peercache-system",
		"helm rollback peercache --wait":                                                                    "-n peercache-system",
		"helm rollback peercache --wait" + end:                                                              "",
		"kubectl apply --server-side -k config/default":                                                     "",
		"kubectl apply --server-side -k config/nothing":                                                     "no kustomization",
		"kubectl wait --for=jsonpath='{.status.image}'=" + registry + "/dataplane:1.2.3 pcc/kv":             "digest",
		`kubectl wait --for=jsonpath='{.status.image}'="$image" pcc/kv`:                                     "",
		"kubectl apply -f peercache.yaml":                                                                   "",
		"helm version":                                                                                      "",
	} {
		if fault, _ := commandFault("1.2.3", command); (want == "") != (fault == "") || !strings.Contains(fault, want) {
			t.Errorf("%s: %q, want %q", command, fault, want)
		}
	}
}
