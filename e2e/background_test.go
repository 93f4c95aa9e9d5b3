// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"
)

// background is an action that runs inside an engine's pod on its own, so that neither the API server nor
// the machine's link is needed until its result is fetched.
type background struct {
	engine engine
	action string
	file   string
}

// socketFolder is where the engine pods see the machine's folder of sockets for their namespace.
const socketFolder = "/run/peercache"

// machineFolder is the same folder on the machine.
func machineFolder() string {
	return "/run/peercache/" + namespace + "/" + clusterName + ".tenants/" + namespace
}

// start begins an action. With a trigger it waits inside the pod until that file appears in the machine's
// folder of sockets, the one place that a pod and its machine share.
func (e engine) start(ctx context.Context, action string, body request, trigger string) background {
	text, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	b := background{e, action, fmt.Sprintf("/tmp/%s-%d", action, time.Now().UnixNano())}
	wait := ""
	if trigger != "" {
		wait = fmt.Sprintf("until [ -e %s/%s ]; do sleep 0.1; done; ", socketFolder, trigger)
	}
	script := fmt.Sprintf("cat > %[1]s.in; { %[2]senginectl %[3]s - < %[1]s.in > %[1]s.out 2>&1; echo $? > %[1]s.rc; } "+
		"< /dev/null > /dev/null 2>&1 &", b.file, wait, action)
	_, err = kube.exec(ctx, namespace, e.name, string(text), "sh", "-c", script)
	Expect(err).NotTo(HaveOccurred())
	return b
}

// stop ends it and all other loads of its engine, after the round that they are in, and is its result.
func (b background) stop(ctx context.Context) result {
	_, err := kube.exec(ctx, namespace, b.engine.name, "", "enginectl", "stop")
	Expect(err).NotTo(HaveOccurred())
	return b.result(ctx, time.Minute)
}

// result waits for the end of the action.
func (b background) result(ctx context.Context, within time.Duration) result {
	Eventually(func() (string, error) {
		return kube.exec(ctx, namespace, b.engine.name, "", "cat", b.file+".rc")
	}).WithContext(ctx).WithTimeout(within).WithPolling(time.Second).Should(HavePrefix("0"),
		"%s on engine %s does not end well", b.action, b.engine.name)
	output, err := kube.exec(ctx, namespace, b.engine.name, "", "cat", b.file+".out")
	Expect(err).NotTo(HaveOccurred())
	answer, err := parseResult(b.engine, b.action, output)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

// waitUntilReading waits until a load makes the node on a machine read.
func waitUntilReading(ctx context.Context, node string) {
	const pages = "peercache_read_requests_total"
	before := nodeMetrics(ctx, node)[pages]
	Eventually(func() float64 { return nodeMetrics(ctx, node)[pages] - before }).
		WithContext(ctx).WithTimeout(hang).Should(BeNumerically(">", 0), "the load on %s does not start", node)
}

// expectHarmless is what every fault must leave true of the calls made during it.
func expectHarmless(r result) {
	Expect(r.Rounds).To(BeNumerically(">", 0), "rounds of the load")
	Expect(r.Wrong).To(BeZero(), "pages with wrong bytes: %s", timeline(r))
	Expect(r.MaxCallSeconds).To(BeNumerically("<=", callBound.Seconds()), "longest call of a load: %s", timeline(r))
}

// timeline is a load in one line, equal rounds drawn together: "0.0s 300, 4.2s 0, 6.1s 300".
func timeline(r result) string {
	var parts []string
	last := -1
	for _, round := range r.Timeline {
		if round.Pages != last {
			parts = append(parts, fmt.Sprintf("%.1fs %d", round.At, round.Pages))
			last = round.Pages
		}
	}
	return fmt.Sprintf("%d rounds, %d full, %d empty, longest call %.3fs; pages per round: %s",
		r.Rounds, r.FullRounds, r.EmptyRounds, r.MaxCallSeconds, strings.Join(parts, ", "))
}
