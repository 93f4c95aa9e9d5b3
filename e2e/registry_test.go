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
)

const (
	registryPage = "../docs/quickstart.md"
	// registryOfPage is replaced by the registry of the tests.
	registryOfPage = "ghcr.io/peercache/peercache"
)

// published is what the cluster is installed from, once it is upgraded from a registry.
var published *release

// release is what `make push` has put into a registry.
type release struct {
	registry string
	images   map[string]string // and chart and bundle: NAME@DIGEST
}

// publish pushes the images that the suite runs on to a registry in the cluster, from which the machines pull.
func publish(ctx context.Context) *release {
	address, err := below.registry(ctx, "up")
	Expect(err).NotTo(HaveOccurred())
	made := &release{registry: address + "/team/peercache", images: map[string]string{}}
	By("hack/release/push.sh " + made.registry)
	Expect(command(ctx, "env", "REGISTRY_INSECURE=true", "../hack/release/push.sh", made.registry)).To(Succeed())
	text, err := os.ReadFile("../dist/release/pushed.tsv")
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(text)) {
		name, reference, _ := strings.Cut(strings.TrimSpace(line), "\t")
		Expect(reference).To(HavePrefix(made.registry + "/"))
		made.images[name] = reference
	}
	Expect(made.images).To(HaveLen(5), "images, chart and bundle")
	return made
}

// install runs the page's command as its reader would, in a folder without the source tree. The chart names the images.
func (r *release) install(ctx context.Context, values ...string) {
	text, err := os.ReadFile(registryPage)
	Expect(err).NotTo(HaveOccurred())
	var commands []string
	for line := range strings.Lines(string(text)) {
		if command, found := strings.CutPrefix(strings.TrimSpace(line), "helm upgrade --install "); found {
			commands = append(commands, "helm upgrade --install "+command)
		}
	}
	Expect(commands).To(HaveLen(1), "commands of %s that install the chart", registryPage)
	line := strings.ReplaceAll(commands[0], registryOfPage, r.registry) + " --plain-http"
	By(strings.Join(append([]string{line}, values...), " "))
	folder, err := filepath.Abs(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	Expect(command(ctx, "bash", append([]string{"-c", `cd "$1" && shift && ` + line + ` "$@"`, "page", folder}, values...)...)).To(Succeed())
}

// podImages are the images that a pod needs, also as volumes.
func podImages(pod *corev1.Pod) (images []string) {
	for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		images = append(images, container.Image)
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Image != nil {
			images = append(images, volume.Image.Reference)
		}
	}
	return images
}
