// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/internal/markdown"
)

// What the README says under this heading brings the suite's cluster up: its commands and its manifest, and nothing else.
// The suite changes three things: the size of the pool, which would not fit these machines, the values of suiteValues, and
// the chart, which comes from the tree with the images that the machines have. The upgrade specs install from a registry.
const (
	readme           = "../README.md"
	quickStart       = "## Quick start on your cluster"
	quickStartFile   = "peercache.yaml"
	readmePool       = "pool: 64Gi"
	suitePool        = "pool: 256Mi"
	readmeSelector   = `selector: {nvidia.com/gpu.present: "true"}`
	readmeChart      = "oci://ghcr.io/peercache/peercache/charts/peercache"
	suiteChart       = "charts/peercache"
	quickStartMarker = "apiVersion: v1\nkind: Namespace\n"
)

// suiteValues are what the suite adds to the README's Helm command.
func suiteValues() []string {
	return []string{
		// Images that were built anew under the same tag do not change the Deployment: this does.
		"--set-string", "podAnnotations.build=" + os.Getenv("PEERCACHE_BUILD"),
		"--set", "csi.enabled=true", // some specs have sockets by CSI
		// What some specs ask of the operator.
		"--set", "rbac.admissionPolicies.enabled=true,rbac.missedPods.enabled=true,rbac.networks.enabled=true,rbac.monitoring.enabled=true",
	}
}

// quickStartCommands are the commands of the section that begin with one of these programs, in their order.
func quickStartCommands(programs ...string) []string {
	return pageCommands(readme, quickStart, programs...)
}

// quickStartManifest is what the README has in peercache.yaml, with the suite's pool.
func quickStartManifest() string {
	var found []string
	for _, block := range markdown.Parse(pageSection(readme, quickStart)).Blocks {
		if block.Language == "yaml" && strings.HasPrefix(block.Text, quickStartMarker) {
			found = append(found, block.Text)
		}
	}
	Expect(found).To(HaveLen(1), "manifests of the README's quick start")
	return suiteManifest(found[0])
}

// suiteManifest has the suite's pool, and no selector: its machines have no GPU.
func suiteManifest(manifest string) string {
	for _, part := range []string{readmePool, readmeSelector} {
		Expect(strings.Count(manifest, part)).To(Equal(1), "%q in\n%s", part, manifest)
	}
	return strings.NewReplacer(readmePool, suitePool, readmeSelector, "").Replace(manifest)
}

// quickStartFolder is a folder in which the README's commands find what they name: the chart and peercache.yaml.
func quickStartFolder() string {
	folder := GinkgoT().TempDir()
	charts, err := filepath.Abs("../charts")
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Symlink(charts, filepath.Join(folder, "charts"))).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, quickStartFile), []byte(quickStartManifest()), 0o600)).To(Succeed())
	return folder
}

// installOperator installs the chart with the README's command, or brings it to these values. After an upgrade from a
// registry it stays with the chart of the registry.
func installOperator(ctx context.Context, values ...string) {
	if published != nil {
		published.install(ctx, append(suiteValues(), values...)...)
		return
	}
	commands := quickStartCommands("helm")
	Expect(commands).To(HaveLen(1), "Helm commands of the README's quick start")
	Expect(strings.Count(commands[0], readmeChart)).To(Equal(1), "%q in %s", readmeChart, commands[0])
	runFromReadme(ctx, strings.Replace(commands[0], readmeChart, suiteChart, 1), append(suiteValues(), values...)...)
}

// createFromReadme makes the PeerCacheCluster, with the namespace of the suite, and waits for it as the README does.
func createFromReadme(ctx context.Context) {
	for document := range strings.SplitSeq(quickStartManifest(), "\n---\n") {
		object := &metav1.PartialObjectMetadata{}
		Expect(yaml.Unmarshal([]byte(document), object)).To(Succeed())
		if object.Kind == "Namespace" {
			Expect(object.Name).To(Equal(namespace))
		} else {
			Expect(object.Namespace + "/" + object.Name).To(Equal(namespace + "/" + clusterName))
		}
	}
	home := &corev1.Namespace{}
	err := kube.Get(ctx, client.ObjectKey{Name: namespace}, home)
	Expect(apierrors.IsNotFound(err)).To(BeTrue(), "namespace %s is not of the suite, which would delete it at its end (%v)", namespace, err)

	commands := quickStartCommands("kubectl")
	Expect(commands).To(HaveLen(2), "kubectl apply, and kubectl wait")
	Expect(commands[0]).To(Equal("kubectl apply -f " + quickStartFile))
	runFromReadme(ctx, commands[0])
	throwAway(ctx, namespace)
	runFromReadme(ctx, commands[1])
}

// runFromReadme runs a command as a reader of the README would, with these arguments behind its own.
func runFromReadme(ctx context.Context, line string, more ...string) {
	By(strings.Join(append([]string{line}, more...), " "))
	Expect(command(ctx, "bash", append([]string{"-c", `cd "$1" && shift && ` + line + ` "$@"`, "README", quickStartFolder()},
		more...)...)).To(Succeed())
}
