// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const scenarioPages = 300

// scenario is a layout of SGLang's host pool with an interface of its storage backends.
type scenario struct {
	kind, layout string
	v1           bool
}

func (s scenario) String() string {
	if s.v1 {
		return s.kind + " " + s.layout + " v1"
	}
	return s.kind + " " + s.layout + " generic"
}

func scenarios() (all []scenario) {
	layouts := map[string][]string{
		"mha": {"page_first", "page_first_direct", "page_head", "layer_first"},
		"mla": {"page_first", "page_first_direct", "layer_first"},
	}
	for _, kind := range []string{"mha", "mla"} {
		for _, layout := range layouts[kind] {
			all = append(all, scenario{kind, layout, true}, scenario{kind, layout, false})
		}
	}
	return all
}

func mainJobSpecs() {
	var table []string
	for i, s := range scenarios() {
		It("in all of the 14 scenarios: "+s.String(), func(ctx context.Context) {
			const tokens = scenarioPages * pageTokens
			before := nodeMetrics(ctx, nodes.reader)
			// Seeds differ from scenario to scenario and from run to run: no page can be an old one.
			body := request{Kind: s.kind, Layout: s.layout, V1: s.v1, Pages: scenarioPages,
				Seed: int(time.Now().Unix()%1_000_000)*100 + i}

			wrote := writer.write(ctx, body)
			got := reader.read(ctx, body)
			right := rightPages(reader, got, wrote.SHA256s)

			table = append(table, fmt.Sprintf("%-30s %7d %7d %11d %9d %9.3f %9.3f", s, wrote.Backup, got.Hit,
				got.Prefetched, right, wrote.Seconds, got.Seconds))
			Expect(wrote.Backup).To(Equal(tokens), "tokens written")
			Expect(got.Hit).To(Equal(tokens), "tokens that the reader was promised")
			Expect(got.Prefetched).To(Equal(tokens), "tokens that the reader got")
			Expect(right).To(Equal(scenarioPages), "pages with the bytes that were written")
			Expect(wrote.SharedMemory && got.SharedMemory).To(BeTrue(), "host pools that are shared with the node")

			after := nodeMetrics(ctx, nodes.reader)
			const remote = `peercache_read_hits_total{tier="remote"}`
			Expect(after[remote]-before[remote]).To(BeNumerically(">=", scenarioPages), "pages read from the other machine")
		}, SpecTimeout(longest))
	}

	It("and each node's metrics and status show it", func(ctx context.Context) {
		wrote, read := nodeMetrics(ctx, nodes.writer), nodeMetrics(ctx, nodes.reader)
		Expect(wrote["peercache_pool_pages"]).To(BeNumerically(">", 0))
		Expect(wrote["peercache_write_stored_total"]).To(BeNumerically(">=", scenarioPages))
		Expect(wrote["peercache_served_pages_total"]).To(BeNumerically(">=", scenarioPages))
		Expect(read["peercache_write_stored_total"]).To(BeZero(), "pages stored on the reader's node")
		Expect(wrote["peercache_members"]).To(BeEquivalentTo(len(nodes.all())))
		for node, engines := range map[string]int{nodes.writer: 1, nodes.reader: 1, nodes.third: 0} {
			pod, err := nodePod(ctx, node)
			Expect(err).NotTo(HaveOccurred())
			toStrangers, err := statusOf(ctx, pod)
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Join(toStrangers.engineNames(), "")).To(BeEmpty())
			answer, err := wholeStatus(ctx, pod)
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Engines).To(HaveLen(engines), "engines of the node on %s", node)
			for _, e := range answer.Engines {
				Expect(e.Name).To(ContainSubstring(modelName))
			}
		}
	}, SpecTimeout(longest))

	AfterAll(func() {
		text := fmt.Sprintf("%-30s %7s %7s %11s %9s %9s %9s\n%s\n", fmt.Sprintf("scenario (%d pages)", scenarioPages),
			"backup", "hit", "prefetched", "equal", "write s", "read s", strings.Join(table, "\n"))
		Expect(os.WriteFile(filepath.Join(artifacts(), "scenarios.txt"), []byte(text), 0o644)).To(Succeed())
		AddReportEntry("scenarios", text)
	})
}
