// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestWritesDoNotGrowWithNodes runs the whole measurement at a small size. Counts must be the same at any size and on any
// machine. It ignores times, and memory is far from its limit at this size.
func TestWritesDoNotGrowWithNodes(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	program := filepath.Join(t.TempDir(), "peercache-operator")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, output)
	}
	c := config{
		root: "../..", operator: program, out: t.TempDir(), nodes: 50, groups: 2, rails: 8, engines: 200,
		quiet: 2 * time.Second, idle: 5 * time.Second, rate: 100, load: time.Second,
	}
	found, err := measure(t.Context(), c, newProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	found.print(os.Stderr)
	for _, l := range found.Limits {
		if l.What != limitWebhookP99 && !l.OK {
			t.Errorf("%s: %g, want at most %g", l.What, l.Found, l.Limit)
		}
	}
	if found.Connected != c.engines || found.Webhook.Asked != c.rate || found.Webhook.Patched == 0 {
		t.Errorf("the webhook answered %+v and connected %d pods", found.Webhook, found.Connected)
	}
	if found.phase(phaseApply).writes() == 0 || found.phase(phaseIdle).Passes == 0 || found.phase(phaseRestart).Passes == 0 {
		t.Errorf("the operator was not watched at work: %+v", found.Phases)
	}
}
