// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

//go:embed frames.py
var framesProgram string

// errorFrame is the type of the frame that answers a malformed one.
const errorFrame = 1

func badInputSpecs() {
	DescribeTable("on a node's sockets: a clear error and a closed connection",
		func(ctx context.Context, target func(podIP string) string, counter string) {
			pod, err := nodePod(ctx, nodes.reader)
			Expect(err).NotTo(HaveOccurred())
			restarts := pod.Status.ContainerStatuses[0].RestartCount
			before := nodeMetrics(ctx, nodes.reader)[counter]

			output, err := kube.exec(ctx, namespace, reader.name, framesProgram, "python3", "-", target(pod.Status.PodIP))
			Expect(err).NotTo(HaveOccurred())
			var answers map[string]struct {
				Closed   bool `json:"closed"`
				Answered *int `json:"answered"`
			}
			Expect(json.Unmarshal([]byte(output), &answers)).To(Succeed(), output)
			Expect(len(answers)).To(BeNumerically(">", 10))
			refused := 0
			for name, answer := range answers {
				if name == "half a header" || name == "half a body" {
					Expect(answer.Closed).To(BeFalse(), "%s may be the beginning of a good frame", name)
					continue
				}
				refused++
				Expect(answer.Closed).To(BeTrue(), "%s: the connection stays open", name)
				// Where the node closes with bytes unread, the kernel may drop its answer.
				Expect(answer.Answered).To(Or(BeNil(), HaveValue(Equal(errorFrame))), name)
			}
			Expect(answers["request before the greeting"].Answered).To(HaveValue(Equal(errorFrame)))
			Expect(nodeMetrics(ctx, nodes.reader)[counter]-before).To(BeNumerically(">=", refused), counter)

			after, err := kube.pod(ctx, namespace, pod.Name)
			Expect(err).NotTo(HaveOccurred())
			Expect(ready(after)).To(BeTrue())
			Expect(after.Status.ContainerStatuses[0].RestartCount).To(Equal(restarts))
			body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 20, Seed: freshSeed()}
			wrote := writeAll(ctx, body)
			Expect(rightPages(reader, reader.read(ctx, body), wrote.SHA256s)).To(Equal(body.Pages))
		},
		Entry("the peers' port", func(ip string) string { return fmt.Sprintf("%s:%d", ip, peerPort) },
			"peercache_peer_bad_frames_total", SpecTimeout(longest)),
		Entry("the engines' socket", func(string) string { return socketFolder + "/" + groupName + ".sock" },
			"peercache_engine_bad_requests_total", SpecTimeout(longest)),
	)

	It("in an engine's extra-config: SGLang refuses to start and names key, value and remedy", func(ctx context.Context) {
		bad := map[string]struct {
			config string
			says   []string
		}{
			"unknown-key": {`{"sokcet": "/run/peercache/default.sock"}`, []string{`"sokcet"`, "/run/peercache/default.sock", `socket`}},
			"wrong-type":  {`{"interface_v1": "perhaps"}`, []string{`"interface_v1"`, "perhaps", "write true or false"}},
			// A socket where nobody listens is none: a node may come (enginefirst_test.go).
			"no-socket": {`{"socket": "/run/peercache"}`, []string{`"socket"`, "/run/peercache", "is a folder", "/run/peercache/default.sock"}},
		}
		for name, b := range bad {
			startEngine(ctx, name, nodes.reader, "--hicache-storage-backend", "dynamic",
				"--hicache-storage-backend-extra-config", b.config)
		}
		for name, b := range bad {
			Eventually(func(g Gomega) {
				pod, err := kube.pod(ctx, namespace, name)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pod.Status.Phase).To(Equal(corev1.PodFailed))
			}).WithContext(ctx).WithTimeout(90*time.Second).Should(Succeed(), "engine %s starts with extra-config %s", name, b.config)
			logs, err := kube.logs(ctx, namespace, name, "engine", false)
			Expect(err).NotTo(HaveOccurred())
			for _, text := range b.says {
				Expect(logs).To(ContainSubstring(text), name)
			}
			pod, err := kube.pod(ctx, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			deleteAndWait(ctx, pod, hang)
		}
	}, SpecTimeout(longest))

	It("from an engine that is killed in the middle of a set: its session ends, others are served", func(ctx context.Context) {
		victim := startEngine(ctx, "victim", nodes.reader)
		victim.waitReady(ctx)
		node, err := nodePod(ctx, nodes.reader)
		Expect(err).NotTo(HaveOccurred())
		before, err := wholeStatus(ctx, node)
		Expect(err).NotTo(HaveOccurred())
		Expect(before.engineNames()).To(ContainElement(HavePrefix(victim.name + "/")))
		stored := nodeMetrics(ctx, nodes.reader)["peercache_write_stored_total"]
		victim.start(ctx, "load-write", request{Kind: "mla", Layout: "layer_first", V1: true, Pages: 300,
			Seed: freshSeed(), Seconds: 240}, "")
		Eventually(func() float64 { return nodeMetrics(ctx, nodes.reader)["peercache_write_stored_total"] }).
			WithContext(ctx).WithTimeout(hang).Should(BeNumerically(">", stored), "the victim does not write")

		// From the machine: PID 1 of a container cannot be killed from inside.
		pod, err := kube.pod(ctx, namespace, victim.name)
		Expect(err).NotTo(HaveOccurred())
		_, err = below.exec(ctx, nodes.reader, "sh", "-c", fmt.Sprintf(
			"for p in $(pgrep -f sglang.launch_server); do if grep -q %s /proc/$p/cgroup; then kill -9 $p; fi; done",
			strings.ReplaceAll(string(pod.UID), "-", "."))) // systemd writes the UID with underscores
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			now, err := wholeStatus(ctx, node)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.engineNames()).NotTo(ContainElement(HavePrefix(victim.name+"/")), "sessions of the dead engine")
			g.Expect(now.engineNames()).To(ContainElement(HavePrefix(reader.name + "/")))
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "the node does not notice that the engine died")
		pod, err = kube.pod(ctx, namespace, victim.name)
		Expect(err).NotTo(HaveOccurred())
		deleteAndWait(ctx, pod, hang)

		node, err = nodePod(ctx, nodes.reader)
		Expect(err).NotTo(HaveOccurred())
		Expect(ready(node)).To(BeTrue())
		body := request{Kind: "mha", Layout: "page_head", V1: false, Pages: 100, Seed: freshSeed()}
		wrote := writeAll(ctx, body)
		Expect(rightPages(reader, reader.read(ctx, body), wrote.SHA256s)).To(Equal(body.Pages))
	}, SpecTimeout(longest))
}
