// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// hang ends what would never end: what is waited for comes in a small part of it, also on a busy machine.
const hang = time.Minute

// longest is what a spec takes at most that waits for little: it, too, only ends a hang.
const longest = 5 * time.Minute

// callBound tells a call of SGLang into its storage that ends from one that waits as long as the fault. It takes the client's
// timeout_ms of 1.5 s at most, whatever is broken: the node, with its peer-timeout-ms of 1 s, answers within that as long as
// it runs. The rest is what a busy machine takes to notice that it is over.
const callBound = 10 * time.Second

func faultSpecs() {
	var (
		body  request
		wrote result
	)
	// Fresh pages on the writer's node, so that every hit of the reader comes over the network.
	BeforeEach(func(ctx context.Context) {
		body = request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		wrote = writeAll(ctx, body)
	}, NodeTimeout(longest))

	underLoad := func(ctx context.Context, seconds float64, fault func()) result {
		load := body
		load.Seconds, load.SHA256s = seconds, wrote.SHA256s
		running := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		fault()
		answer := running.result(ctx, time.Duration(seconds)*time.Second+hang)
		AddReportEntry("reader", timeline(answer))
		return answer
	}
	hitsReturn := func(ctx context.Context) {
		expectAllPages(ctx, body, wrote.SHA256s, hang, "hits do not return")
	}

	It("when the writer's node is killed: its pages come back with it", func(ctx context.Context) {
		answer := underLoad(ctx, 12, func() { killNode(ctx, nodes.writer) })
		expectHarmless(answer)
		Expect(answer.FullRounds).To(BeNumerically(">", 0))
		Expect(answer.FullRounds).To(BeNumerically("<", answer.Rounds), "the fault was not noticed: %s", timeline(answer))
		waitForNodes(ctx)
		hitsReturn(ctx)
	}, SpecTimeout(longest))

	It("when the reader's own node is killed: hits come back by themselves", full, func(ctx context.Context) {
		answer := underLoad(ctx, 12, func() { killNode(ctx, nodes.reader) })
		expectHarmless(answer)
		Expect(answer.FullRounds).To(BeNumerically(">", 0))
		Expect(answer.FullRounds).To(BeNumerically("<", answer.Rounds), "the fault was not noticed: %s", timeline(answer))
		waitForNodes(ctx)
		hitsReturn(ctx)
	}, SpecTimeout(longest))

	It("when a node that holds only a part of the directory is killed: no page is lost", full, func(ctx context.Context) {
		expectHarmless(underLoad(ctx, 12, func() { killNode(ctx, nodes.third) }))
		hitsReturn(ctx)
		waitForNodes(ctx)
	}, SpecTimeout(longest))

	It("when the writer's machine is cut off: hits return with its link", func(ctx context.Context) {
		local := body
		local.Seconds, local.SHA256s = 10, wrote.SHA256s
		var alone background
		answer := underLoad(ctx, 14, func() {
			alone = writer.start(ctx, "load", local, "")
			waitUntilReading(ctx, nodes.writer)
			defer func() { Expect(below.link(context.WithoutCancel(ctx), nodes.writer, "up")).To(Succeed()) }()
			Expect(below.link(ctx, nodes.writer, "down")).To(Succeed())
			time.Sleep(5 * time.Second) // longer than timing.memberTTLMilliseconds: it is dropped, and has to join again
		})
		expectHarmless(answer)
		Expect(answer.FullRounds).To(BeNumerically("<", answer.Rounds), "the fault was not noticed: %s", timeline(answer))
		hitsReturn(ctx)
		cutOff := alone.result(ctx, time.Minute)
		AddReportEntry("writer", timeline(cutOff))
		expectHarmless(cutOff)
	}, SpecTimeout(longest))
}

// freshSeed makes pages that no run before has written.
func freshSeed() int { return int(time.Now().UnixMilli() % 1_900_000_000) }

// writeAll writes until every page is stored; a node that has just started takes a moment to be attached again.
func writeAll(ctx context.Context, body request) (wrote result) { return writeAllOn(ctx, writer, body) }

func writeAllOn(ctx context.Context, e engine, body request) (wrote result) {
	Eventually(func(g Gomega) {
		var err error
		wrote, err = e.do(ctx, "write", body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(wrote.Backup).To(Equal(body.Pages*pageTokens), "tokens written")
	}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "%s cannot write", e.name)
	return wrote
}
