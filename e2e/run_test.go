// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// runSpecs look at what e2e/run.sh does before the suite begins.
func runSpecs() {
	It("alone, whichever way another run comes to the cluster", func(ctx context.Context) {
		if _, locked := os.LookupEnv("PEERCACHE_E2E_LOCK"); !locked {
			Skip("not run by e2e/run.sh")
		}
		// Another file, and hooks instead of the folder of the cluster.
		config, err := output(ctx, "kubectl", "config", "view", "--raw", "--flatten")
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(GinkgoT().TempDir(), "another")
		Expect(os.WriteFile(file, []byte(config), 0o600)).To(Succeed())
		// Without the lock it would list the tests, and do nothing.
		other := exec.CommandContext(ctx, "./run.sh", "-test.list=.")
		other.Env = append(os.Environ(), "KUBECONFIG="+file)
		said, err := other.CombinedOutput()
		Expect(err).To(HaveOccurred(), "%s", said)
		Expect(string(said)).To(ContainSubstring("another run of the end-to-end tests uses this cluster"))
	}, SpecTimeout(longest))

	It("on the images that their provenance is of", func(ctx context.Context) {
		folder, made := os.LookupEnv("PEERCACHE_PROVENANCE")
		if !made {
			Skip("images of a work tree with changes are of no commit")
		}
		running := runningImages(ctx)
		for _, image := range []string{"operator", "dataplane", "client"} {
			var statement struct {
				Subject []struct {
					Name   string
					Digest struct{ SHA256 string }
				}
			}
			text, err := os.ReadFile(filepath.Join(folder, image+".provenance.json"))
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(text, &statement)).To(Succeed(), "%s", text)
			Expect(statement.Subject).To(HaveLen(2), "archive and image")
			subject := statement.Subject[1]
			Expect(running).To(HaveKeyWithValue(subject.Name, []string{"sha256:" + subject.Digest.SHA256}))
			expectListed(filepath.Join(folder, image+".spdx.json"), statement.Subject[0].Digest.SHA256)
		}
	}, SpecTimeout(longest))

	It("and on a client of which pip installs the wheel", func(ctx context.Context) {
		Expect(command(ctx, "../hack/release/wheels.sh")).To(Succeed())
		home := GinkgoT().TempDir()
		python := filepath.Join(home, "bin/python")
		Expect(command(ctx, "/usr/bin/python3", "-m", "venv", home)).To(Succeed())
		Expect(command(ctx, python, "-m", "pip", "install", "--quiet", "--no-index", "--only-binary", ":all:",
			"--find-links", "../dist/wheels", "peercache-k8s=="+version())).To(Succeed())
		said, err := output(ctx, python, "-m", "peercache", "--version") // loads the extension
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring(version()))
	}, SpecTimeout(10*time.Minute))
}

// expectListed: the list of what is in an image is of the archive with that digest, is not empty, and names licences.
func expectListed(file, archive string) {
	var list struct {
		Packages []struct {
			Name      string
			Checksums []struct{ ChecksumValue string }
			Declared  string `json:"licenseDeclared"`
		}
	}
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(text, &list)).To(Succeed(), "%s", text)
	Expect(len(list.Packages)).To(BeNumerically(">", 10), "%s", text)
	for _, listed := range list.Packages[1:] {
		Expect(listed.Declared).NotTo(BeElementOf("", "NOASSERTION"), "licence of %s in %s", listed.Name, file)
	}
	Expect(list.Packages[0].Checksums).To(HaveLen(1))
	Expect(list.Packages[0].Checksums[0].ChecksumValue).To(Equal(archive))
}

// runningImages are the IDs of what the pods of operator, nodes and engines run, by the image's name.
func runningImages(ctx context.Context) map[string][]string {
	images := map[string][]string{}
	for _, in := range []string{systemNamespace, namespace} {
		var pods corev1.PodList
		Expect(kube.List(ctx, &pods, client.InNamespace(in))).To(Succeed())
		for _, pod := range pods.Items {
			for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
				if !strings.HasPrefix(status.ImageID, "sha256:") {
					Skip("this runtime names " + status.Image + " by the manifest that it has made of the archive")
				}
				if ids := images[status.Image]; !slices.Contains(ids, status.ImageID) {
					images[status.Image] = append(ids, status.ImageID)
				}
			}
		}
	}
	return images
}
