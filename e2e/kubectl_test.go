// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
)

// peercache runs `kubectl peercache` and returns what it prints and its exit status.
func peercache(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, complaints bytes.Buffer
	command := exec.CommandContext(ctx, "kubectl", append([]string{"peercache", "--namespace", namespace}, args...)...)
	command.Stdout, command.Stderr = &out, &complaints
	err := command.Run()
	if err != nil && command.ProcessState == nil {
		Fail("kubectl, with kubectl-peercache of `make build-kubectl` beside it, must be on PATH: " + err.Error())
	}
	return out.String(), complaints.String(), command.ProcessState.ExitCode()
}

// peercacheOK is for command lines that find nothing wrong.
func peercacheOK(ctx context.Context, args ...string) string {
	stdout, stderr, status := peercache(ctx, args...)
	Expect(status).To(BeZero(), "kubectl peercache %s\n%s%s", strings.Join(args, " "), stdout, stderr)
	return stdout
}

// nodeID is what members call the node on a machine.
func nodeID(node string) string { return node + "." + groupName }

func kubectlSpecs() {
	It("what is there: status, members, rails", func(ctx context.Context) {
		Eventually(func(g Gomega) {
			text, stderr, status := peercache(ctx, "status", clusterName)
			g.Expect(status).To(BeZero(), stderr)
			g.Expect(text).To(HavePrefix(namespace + "/" + clusterName + ": ready, 3 of 3 members serve, 3 active, 768Mi for pages"))
			g.Expect(text).To(MatchRegexp(`(?m)^default +3 +3 +3 +0$`))
			g.Expect(text).To(ContainSubstring("next: nothing;"))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())

		var members struct {
			Clusters []struct {
				Hosts   []string
				Silent  []string
				Members []struct {
					Name, State, Address string
					CapacityBytes        int64
					Reachable            bool
					SeenBy               int
				}
			}
		}
		Expect(json.Unmarshal([]byte(peercacheOK(ctx, "members", clusterName, "-o", "json")), &members)).To(Succeed())
		Expect(members.Clusters).To(HaveLen(1))
		Expect(members.Clusters[0].Hosts).To(HaveLen(3))
		Expect(members.Clusters[0].Silent).To(BeEmpty())
		var seen []string
		for _, m := range members.Clusters[0].Members {
			seen = append(seen, m.Name)
			Expect(m.State).To(Equal("active"), m.Name)
			Expect(m.Reachable).To(BeTrue(), m.Name)
			Expect(m.SeenBy).To(Equal(3), m.Name)
			Expect(m.CapacityBytes).To(BeNumerically("~", 256<<20, 2<<20), m.Name) // in whole chunks
			Expect(m.Address).To(HaveSuffix(":31998"), m.Name)
		}
		Expect(seen).To(ConsistOf(nodeID(nodes.writer), nodeID(nodes.reader), nodeID(nodes.third)))

		rails := peercacheOK(ctx, "rails", clusterName)
		Expect(rails).To(HavePrefix(namespace + "/" + clusterName + ": 0 rails on 0 members, 0 down, 3 members without"))
		for _, node := range nodes.all() {
			Expect(rails).To(MatchRegexp(`(?m)^` + nodeID(node) + ` .* tcp: .`))
		}
	}, SpecTimeout(longest))

	It("what moves: top", func(ctx context.Context) {
		load := request{Kind: "mla", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		load.SHA256s = writer.write(ctx, load).SHA256s
		load.Seconds = 12
		loaded := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)

		var top struct {
			Clusters []struct {
				Members []struct {
					Member                                 string
					Engines                                int
					Hits, Asked                            float64
					PagesReadPerSecond, BytesReadPerSecond float64
				}
			}
		}
		Expect(json.Unmarshal([]byte(peercacheOK(ctx, "top", clusterName, "--interval", "2s", "-o", "json")), &top)).To(Succeed())
		Expect(top.Clusters).To(HaveLen(1))
		Expect(top.Clusters[0].Members).To(HaveLen(3))
		for _, node := range top.Clusters[0].Members {
			if node.Member != nodeID(nodes.reader) {
				continue
			}
			Expect(node.Engines).To(Equal(2), "the server's own attachment and that of the load")
			Expect(node.PagesReadPerSecond).To(BeNumerically(">", 0))
			Expect(node.BytesReadPerSecond).To(BeNumerically(">", node.PagesReadPerSecond))
			// Each round of the load asks for one page more than there is. A sample falls into a round at most: its pages are
			// looked up and not delivered yet.
			there := node.Asked * float64(load.Pages) / float64(load.Pages+1)
			Expect(node.Hits).To(BeNumerically("~", there, load.Pages), "pages of the load that were found")
		}
		moved := loaded.result(ctx, time.Minute)
		expectHarmless(moved)
		Expect(moved.FullRounds).To(Equal(moved.Rounds), "rounds in which every page was found: %s", timeline(moved))
	}, SpecTimeout(longest))

	It("what is wrong: doctor", func(ctx context.Context) {
		Eventually(func(g Gomega) { // a condition that is about to turn is a fault, too
			text, stderr, status := peercache(ctx, "doctor", clusterName)
			g.Expect(status).To(BeZero(), text+stderr)
			g.Expect(text).To(ContainSubstring("checked the conditions and 3 members"))
		}).WithContext(ctx).WithTimeout(time.Minute).WithPolling(5 * time.Second).Should(Succeed())

		const nowhere = "nowhere"
		object := &v1alpha1.PeerCacheCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nowhere},
			Spec: v1alpha1.PeerCacheClusterSpec{
				Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("64Mi")},
				Nodes:  v1alpha1.NodesSpec{Selector: map[string]string{"peercache.io/no-such-label": "x"}},
			},
		}
		Expect(kube.Create(ctx, object)).To(Succeed())
		defer deleteAndWait(context.WithoutCancel(ctx), object, time.Minute)
		Eventually(func(g Gomega) {
			text, stderr, status := peercache(ctx, "doctor", nowhere)
			g.Expect(status).To(Equal(1), text+stderr)
			g.Expect(text).To(MatchRegexp(`FAULT +cluster +Ready +NoNodes: `))
		}).WithContext(ctx).WithTimeout(time.Minute).WithPolling(time.Second).Should(Succeed())
	}, SpecTimeout(longest))

	It("how fast pages travel: bench", func(ctx context.Context) {
		// On a machine that is short of processors a read may take longer than it may, and the bench says so.
		Eventually(func(g Gomega) {
			before := nodeMetrics(ctx, nodes.reader)["peercache_write_stored_total"]
			text, stderr, status := peercache(ctx, "bench", clusterName, "--members", nodeID(nodes.writer)+","+nodeID(nodes.reader),
				"--page-size", "64Ki", "--size", "16Mi")
			g.Expect(status).To(BeZero(), text+stderr)
			g.Expect(text).To(MatchRegexp(`(?m)^` + nodeID(nodes.writer) + ` +- +\d+\.\d\d$`))
			g.Expect(text).To(MatchRegexp(`(?m)^` + nodeID(nodes.reader) + ` +\d+\.\d\d +-$`))
			g.Expect(nodeMetrics(ctx, nodes.reader)["peercache_write_stored_total"]-before).To(BeEquivalentTo(256), "pages it stored there")
		}).WithContext(ctx).WithTimeout(2 * time.Minute).WithPolling(5 * time.Second).Should(Succeed())
	}, SpecTimeout(longest))

	It("what the webhook would do: inject --dry-run, as it does", func(ctx context.Context) {
		asked := enginePod("dry", nodes.writer)
		asked.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		manifest, err := yaml.Marshal(asked)
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(GinkgoT().TempDir(), "pod.yaml")
		Expect(os.WriteFile(file, manifest, 0o600)).To(Succeed())

		Expect(peercacheOK(ctx, "inject", "--dry-run", "-f", file)).To(And(
			HavePrefix("pod/dry: would be connected\n"), ContainSubstring("\n+    - --hicache-storage-backend\n")))
		var offline struct{ Pods []struct{ Pod corev1.Pod } }
		Expect(json.Unmarshal([]byte(peercacheOK(ctx, "inject", "--dry-run", "-f", file, "-o", "json")), &offline)).To(Succeed())
		got := offline.Pods[0].Pod

		real := enginePod("dry", nodes.writer)
		Expect(kube.Create(ctx, real, client.DryRunAll)).To(Succeed())
		Expect(got.Annotations).To(Equal(real.Annotations))
		Expect(got.Spec.Containers[0].Args).To(Equal(real.Spec.Containers[0].Args))
		Expect(got.Spec.Containers[0].Env).To(Equal(real.Spec.Containers[0].Env))
		Expect(got.Spec.InitContainers).To(HaveLen(len(real.Spec.InitContainers)))
		for i := range got.Spec.InitContainers {
			Expect(got.Spec.InitContainers[i].Image).To(Equal(real.Spec.InitContainers[i].Image))
		}
	}, SpecTimeout(longest))

	It("all of it without secrets: support-bundle", func(ctx context.Context) {
		file := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		Expect(peercacheOK(ctx, "support-bundle", clusterName, "-o", file)).To(ContainSubstring("could not be collected: 0"))
		files := untar(file)
		prefix := "clusters/" + namespace + "/" + clusterName + "/"
		Expect(files).To(HaveKeyWithValue(prefix+"status.txt", ContainSubstring("3 of 3 members serve")))
		Expect(files).To(HaveKeyWithValue(prefix+"doctor.txt", ContainSubstring("checked the conditions and 3 members")))
		Expect(files).To(HaveKeyWithValue(prefix+"events.yaml", ContainSubstring("reason:")))
		Expect(files).To(HaveKeyWithValue("machines.yaml", ContainSubstring("allocatable:")))
		Expect(files).To(HaveKeyWithValue(MatchRegexp(`^operator/`+systemNamespace+`/.*\.log$`), ContainSubstring("starting")))
		for _, node := range nodes.all() {
			folder := prefix + "members/" + nodeID(node) + "/"
			Expect(files).To(HaveKeyWithValue(folder+"pod.yaml", ContainSubstring("PEERCACHE_POOL_SIZE")))
			Expect(files).To(HaveKeyWithValue(folder+"peercached.log", ContainSubstring("joined")))
			Expect(files).To(HaveKeyWithValue(folder+"status.json", ContainSubstring(`"ring_epoch"`)))
			Expect(files).To(HaveKeyWithValue(folder+"metrics.txt", ContainSubstring("peercache_members")))
		}
		token := tokens(ctx)[0]
		for name, text := range files {
			Expect(text).NotTo(ContainSubstring("PRIVATE KEY"), name)
			// Further in, events name the objects that they are about.
			Expect(text).NotTo(MatchRegexp(`(?m)^(- |  )?kind: Secret$`), name)
			Expect(text).NotTo(ContainSubstring(token), name)
			// In whole groups of three bytes, which what follows does not change.
			Expect(text).NotTo(ContainSubstring(base64.StdEncoding.EncodeToString([]byte(token[:63]))), name)
			Expect(text).NotTo(MatchRegexp(`eyJ[A-Za-z0-9_-]{8,}\.`), "a token in %s", name)
		}
	}, SpecTimeout(longest))

	It("whether it is the cache: bypass, under load", func(ctx context.Context) {
		off := [][]string{{"bypass", "--node", nodes.reader, "--off"}, {"bypass", clusterName, "--off"}}
		defer func() {
			for _, command := range off {
				peercacheOK(context.WithoutCancel(ctx), command...)
			}
		}()
		pages := request{Kind: "mla", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		wrote := reader.write(ctx, pages)
		all := pages.Pages * pageTokens
		Expect(writer.read(ctx, pages).Hit).To(Equal(all))
		load := pages
		load.SHA256s, load.Seconds = wrote.SHA256s, 30
		under := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		before, err := nodePod(ctx, nodes.reader)
		Expect(err).NotTo(HaveOccurred())
		untilHits := func(of engine, want int, what string) {
			began := time.Now()
			Eventually(func() int { return of.read(ctx, pages).Hit }).WithContext(ctx).WithTimeout(hang).Should(Equal(want), what)
			AddReportEntry(what, time.Since(began).Round(100*time.Millisecond))
		}

		Expect(peercacheOK(ctx, "bypass", "--node", nodes.reader)).To(ContainSubstring("run without the cache"))
		untilHits(reader, 0, "hits on a machine that is bypassed")
		Expect(reader.write(ctx, request{Kind: "mla", Layout: "page_first", V1: true, Pages: 10, Seed: freshSeed()}).Backup).To(BeZero())
		Expect(writer.read(ctx, pages).Hit).To(Equal(all), "tokens that another machine finds")
		expectHarmless(under.result(ctx, time.Minute))
		Expect(peercacheOK(ctx, off[0]...)).To(ContainSubstring("use the cache again"))
		untilHits(reader, all, "hits on a machine that is bypassed no more")

		Expect(peercacheOK(ctx, "bypass", clusterName)).To(ContainSubstring("run without the cache"))
		untilHits(writer, 0, "hits of a cluster that is bypassed")
		untilHits(reader, 0, "hits on its other machines")
		Eventually(func(g Gomega) {
			cluster := &v1alpha1.PeerCacheCluster{}
			g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(ContainSubstring("spec.injection.bypass is Enabled"))
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed())
		peercacheOK(ctx, off[1]...)
		untilHits(writer, all, "hits of a cluster that is bypassed no more")
		after, err := nodePod(ctx, nodes.reader)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Status.ContainerStatuses[0].RestartCount).To(Equal(before.Status.ContainerStatuses[0].RestartCount))
	}, SpecTimeout(longest))

	It("how a machine goes into maintenance and comes back: drain, undrain", func(ctx context.Context) {
		defer func() { peercacheOK(context.WithoutCancel(ctx), "undrain", nodes.writer) }()
		// Nobody but the writer's node has these. Being read, they are worth a place elsewhere.
		hot := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		hotBytes := writeAll(ctx, hot).SHA256s
		for range 4 {
			Expect(reader.read(ctx, hot).Hit).To(Equal(hot.Pages * pageTokens))
		}
		load := request{Kind: "mla", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		load.SHA256s, load.Seconds = writeAll(ctx, load).SHA256s, 12
		elsewhere := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		here := writer.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.writer)

		text := peercacheOK(ctx, "drain", nodes.writer, "--wait", "--timeout", "90s")
		Expect(text).To(HavePrefix(nodes.writer + ": 1 member leaves with "))
		Expect(text).To(MatchRegexp(`(?m)^`+namespace+"/"+clusterName+" +"+nodeID(nodes.writer)+` +active +\S+ +25[46]Mi +[12] +2$`),
			"the server's own attachment and, unless it is over, that of the load")
		Expect(text).To(ContainSubstring(nodes.writer + " is not cordoned"))
		Expect(text).To(ContainSubstring("is drained, and all members have left"))
		_, err := nodePod(ctx, nodes.writer)
		Expect(err).To(MatchError(ContainSubstring("no data-plane pod")))
		Eventually(func(g Gomega) {
			cluster := &v1alpha1.PeerCacheCluster{}
			g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(
				Equal("True AllMembersReady: 2/2 members serve; drained machines: " + nodes.writer))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionDevicesAvailable)).To(HavePrefix("True"))
			g.Expect(cluster.Status.Groups).To(HaveLen(1))
			g.Expect(cluster.Status.Groups[0].Drained).To(BeEquivalentTo(1))
			for _, node := range []string{nodes.reader, nodes.third} {
				status, err := nodeStatus(ctx, node)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status.healthyMembers()).To(Equal(2), "members that %s sees: %v", node, status.Members)
			}
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the others do not settle")

		got := reader.read(ctx, hot)
		Expect(got.Hit).To(Equal(hot.Pages*pageTokens), "tokens of pages that only the drained machine had, and that were read most")
		Expect(rightPages(reader, got, hotBytes)).To(Equal(hot.Pages))
		for _, load := range []background{elsewhere, here} { // the second goes on without a node
			expectHarmless(load.result(ctx, time.Minute))
		}
		others := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 50, Seed: freshSeed()}
		Expect(reader.write(ctx, others).Backup).To(Equal(others.Pages*pageTokens), "tokens that an engine elsewhere writes")
		Expect(reader.read(ctx, others).Hit).To(Equal(others.Pages*pageTokens), "tokens that an engine elsewhere reads")
		waitForWebhook(ctx) // an SGLang pod for the drained machine is connected for later

		Expect(peercacheOK(ctx, "undrain", nodes.writer, "--wait")).To(And(
			ContainSubstring("1 member comes back"), ContainSubstring("all members serve")))
		waitForNodes(ctx)
		again := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		wrote := writeAll(ctx, again)
		expectAllPages(ctx, again, wrote.SHA256s, hang, "hits do not return")
	}, SpecTimeout(5*time.Minute))
}

// untar returns the files of an archive by their names below its one folder.
func untar(file string) map[string]string {
	in, err := os.Open(file)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(in.Close()).To(Succeed()) }()
	zip, err := gzip.NewReader(in)
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(archive)
		Expect(err).NotTo(HaveOccurred())
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}
