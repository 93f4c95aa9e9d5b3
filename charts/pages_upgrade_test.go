// SPDX-License-Identifier: Apache-2.0

//go:build render && envtest

package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/internal/markdown"
)

// TestHelmCommandsOfPages runs every `helm upgrade` of the pages on a release that a registry's chart has made, with the chart of
// the next release. Afterwards the operator has the images of that chart, by digest, and the value that was set before.
func TestHelmCommandsOfPages(t *testing.T) {
	c, helm := startAPIServer(t)
	for _, object := range parseObjects(t, read(t, "../operator/reconcile/testdata/prometheus-operator.yaml")+"---\n"+openShift) {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	former, next := registryChart(t, "a"), registryChart(t, "b")
	files, err := markdown.Files("..", "README.md", "docs", "charts/peercache/README.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range markdown.Commands(string(text), "helm") {
			if strings.HasPrefix(command, "helm upgrade ") {
				checked++
				t.Run(strings.TrimPrefix(file, "../")+" "+command, func(t *testing.T) {
					if _, err := helm("upgrade", "--install", release, former, "--create-namespace", "--set", "logLevel=debug"); err != nil {
						t.Fatal(err)
					}
					if _, err := helm(ofPage(command, next)...); err != nil {
						t.Fatal(err)
					}
					expectDigests(t, c, strings.Contains(command, "--reset-then-reuse-values"))
				})
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d commands were found", checked)
	}
}

// openShift is what the page for OpenShift needs of it, and the namespace of its cluster.
const openShift = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: securitycontextconstraints.security.openshift.io}
spec:
  group: security.openshift.io
  names: {kind: SecurityContextConstraints, plural: securitycontextconstraints}
  scope: Cluster
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: inference}
`

// registryChart is the chart as hack/release/push.sh publishes it, with digests of this digit.
func registryChart(t *testing.T, digit string) string {
	t.Helper()
	folder := t.TempDir()
	copyChart(t, folder)
	values := filepath.Join(folder, "values.yaml")
	write(t, values, strings.ReplaceAll(read(t, values), `tag: ""`, "tag: sha256:"+strings.Repeat(digit, 64)))
	return folder
}

// ofPage is a page's command with another chart. Nothing runs here that it could wait for; the function that runs Helm names the
// namespace.
func ofPage(command, chart string) []string {
	command = regexp.MustCompile(`oci://\S+`).ReplaceAllString(command, chart)
	command = regexp.MustCompile(` (?:--version|-n|--namespace) \S+| --wait`).ReplaceAllString(command, "")
	return strings.Fields(strings.ReplaceAll(command, "'", ""))[1:] // no word of a page has a space
}

func expectDigests(t *testing.T, c client.Client, valuesStay bool) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "peercache-operator"}, deployment); err != nil {
		t.Fatal(err)
	}
	operator := deployment.Spec.Template.Spec.Containers[0]
	digest := "@sha256:" + strings.Repeat("b", 64)
	const registry = "ghcr.io/peercache/peercache/"
	if operator.Image != registry+"operator"+digest {
		t.Errorf("the operator's image is %s", operator.Image)
	}
	for _, want := range []string{"--dataplane-image=" + registry + "dataplane" + digest, "--client-image=" + registry + "client" + digest} {
		if !slices.Contains(operator.Args, want) {
			t.Errorf("the operator has no argument %s: %q", want, operator.Args)
		}
	}
	if valuesStay && !slices.ContainsFunc(operator.Args, func(arg string) bool { return strings.HasSuffix(arg, "=debug") }) {
		t.Errorf("the value that was set before is lost: %q", operator.Args)
	}
}
