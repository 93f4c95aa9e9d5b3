// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/peercache/peercache/operator/inject/engines"
)

// TestRefusalsHaveABlocker: what SGLang refuses, injection does not bring about, or the list says why it may.
func TestRefusalsHaveABlocker(t *testing.T) {
	text, err := os.ReadFile("refusals.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		verdict, found := strings.CutPrefix(strings.TrimSpace(line), "-> ")
		if !found {
			continue
		}
		count++
		if why, none := strings.CutPrefix(verdict, "none: "); none && why != "" {
			continue
		}
		if !slices.ContainsFunc(Blockers, func(b Blocker) bool { return b.Flag.Name == verdict }) {
			t.Errorf("no blocker is %q, and it is no \"none: WHY\"", verdict)
		}
	}
	if count < 20 {
		t.Errorf("%d refusals, want 20 at least", count)
	}
}

func TestBlockers(t *testing.T) {
	for arguments, want := range map[string]string{
		"":                               "",
		"--enable-int8-mamba-checkpoint": "--enable-int8-mamba-checkpoint",
		"--enable-unified-memory":        "",
		"--enable-unified-memory --speculative-algorithm EAGLE":                              "--enable-unified-memory",
		"--enable-unified-memory --disaggregation-decode-enable-offload-kvcache":             "--enable-unified-memory",
		"--enable-unified-memory --speculative-algorithm DFLASH --enable-hierarchical-cache": "",
		"--dcp-size 1":                                               "",
		"--dcp-size=2":                                               "--dcp-size",
		"--decode-context-parallel-size 4":                           "--dcp-size",
		"--dcp-size 2 --enable-hierarchical-cache":                   "",
		"--kv-cache-dtype fp8_e4m3":                                  "",
		"--kv-cache-dtype nvfp4":                                     "--kv-cache-dtype",
		"--kv-cache-dtype nvfp4 --enable-hicache":                    "",
		"--enable-hierarchical-cache --disable-radix-cache":          "--disable-radix-cache",
		"--disaggregation-decode-allocation-policy prefill_complete": "--disaggregation-decode-allocation-policy",
		"--disaggregation-decode-allocation-policy on_demand":        "",
	} {
		args, blocked := engines.Argv{Words: strings.Fields(arguments)}, ""
		for _, b := range Blockers {
			if b.Blocks(args) {
				blocked = b.Flag.Name
			}
		}
		if blocked != want {
			t.Errorf("%s: blocked by %q, want %q", arguments, blocked, want)
		}
	}
}
