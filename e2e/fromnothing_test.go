// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/internal/markdown"
)

const (
	installPage     = "../docs/install/README.md"
	removalHeading  = "## Removing it"
	registryHeading = "## 2. Create a cache"
	// What outlives namespaces, of which PeerCache makes some.
	kindsOfClusters = "crd,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations," +
		"validatingadmissionpolicies,validatingadmissionpolicybindings,csidrivers,priorityclasses"
	kindsOfPolicies = "mutatingadmissionpolicies,mutatingadmissionpolicybindings"
)

// fromNothingSpecs do what whoever has two pages and no source tree does: remove PeerCache, and install it from a registry.
func fromNothingSpecs() {
	It("and installed from nothing, from a registry, by what a page says alone", full, func(ctx context.Context) {
		if published == nil {
			published = publish(ctx)
			installOperator(ctx)
		}
		for _, e := range []engine{writer, reader} {
			deleteAndWait(ctx, &corev1.Pod{ObjectMeta: enginePod(e.name, e.node).ObjectMeta}, time.Minute)
		}
		folder := GinkgoT().TempDir()
		removal := pageCommands(installPage, removalHeading, "kubectl", "helm")
		Expect(removal).To(HaveLen(4), "commands of %s that remove PeerCache", installPage)
		for _, line := range removal {
			runIn(ctx, folder, line)
		}
		for _, name := range []string{namespace, systemNamespace} {
			deleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, 2*time.Minute)
		}
		Expect(ofPeerCache(ctx)).To(BeEmpty(), "what stays of PeerCache")

		published.install(ctx)
		manifest := registryManifest()
		Expect(os.WriteFile(filepath.Join(folder, quickStartFile), []byte(manifest), 0o600)).To(Succeed())
		commands := pageCommands(registryPage, registryHeading, "kubectl")
		Expect(commands).To(HaveLen(2), "kubectl apply, and kubectl wait")
		for _, line := range commands {
			runIn(ctx, folder, line)
		}
		throwAway(ctx, namespace)
		waitForNodes(ctx)
		waitForWebhook(ctx)
		for node, pod := range nodePods(ctx) {
			Expect(pod.Spec.Containers[0].Image).To(Equal(published.images["dataplane"]), "of the node on %s", node)
		}
		writer, reader = startEngine(ctx, writer.name, writer.node), startEngine(ctx, reader.name, reader.node)
		writer.waitReady(ctx)
		reader.waitReady(ctx)
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 50, Seed: freshSeed()}
		wrote := writeAll(ctx, body).SHA256s
		got, err := reader.do(ctx, "read", body)
		Expect(err).NotTo(HaveOccurred())
		Expect(rightPages(reader, got, wrote)).To(Equal(body.Pages), "pages of the other machine")
		installOperator(ctx) // with what the specs after this one want
		waitForWebhook(ctx)
	}, SpecTimeout(6*time.Minute))
}

// pageCommands are the commands of a page's section that begin with one of these programs, in their order.
func pageCommands(page, heading string, programs ...string) (commands []string) {
	for line := range strings.Lines(pageSection(page, heading)) {
		command := strings.TrimSpace(line)
		program, _, _ := strings.Cut(command, " ")
		if strings.HasPrefix(line, "    ") && slices.Contains(programs, program) {
			commands = append(commands, command)
		}
	}
	return commands
}

// pageSection is what a page has below a heading of the second level.
func pageSection(page, heading string) string {
	text, err := os.ReadFile(page)
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	Expect(found).To(BeTrue(), "%s has no %q", page, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// registryManifest is the page's peercache.yaml, with the suite's pool. The pods that it connects are the suite's, whose label is
// that of the page's Deployment.
func registryManifest() string {
	blocks := markdown.Parse(pageSection(registryPage, registryHeading)).Blocks
	cluster := slices.IndexFunc(blocks, func(b markdown.Block) bool {
		return b.Language == "yaml" && strings.HasPrefix(b.Text, quickStartMarker)
	})
	Expect(cluster).NotTo(Equal(-1), "%s has no manifest of a cache", registryPage)
	page, err := markdown.Read(registryPage)
	Expect(err).NotTo(HaveOccurred())
	Expect(slices.ContainsFunc(page.Blocks, func(b markdown.Block) bool {
		return strings.Contains(b.Text, "kind: Deployment") && strings.Contains(b.Text, "peercache.io/inject: "+clusterName)
	})).To(BeTrue(), "%s connects no pod", registryPage)
	return suiteManifest(blocks[cluster].Text)
}

// runIn runs a page's command as its reader would, in a folder without the source tree.
func runIn(ctx context.Context, folder, line string) {
	By(line)
	Expect(command(ctx, "bash", "-c", `cd "$1" && `+line, "page", folder)).To(Succeed())
}

// throwAway lets the next run remove a namespace that a page's command has made.
func throwAway(ctx context.Context, name string) {
	made := &corev1.Namespace{}
	Expect(kube.Get(ctx, client.ObjectKey{Name: name}, made)).To(Succeed())
	made.Labels[labelThrowaway] = "true"
	Expect(kube.Update(ctx, made)).To(Succeed())
}

// ofPeerCache is what there is of PeerCache beside namespaces.
func ofPeerCache(ctx context.Context) (names []string) {
	kinds := kindsOfClusters
	if kube.minor >= policiesSince {
		kinds += "," + kindsOfPolicies
	}
	text, err := output(ctx, "kubectl", "get", kinds, "-o", "name")
	Expect(err).NotTo(HaveOccurred())
	for name := range strings.Lines(text) {
		if strings.Contains(name, "peercache") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
