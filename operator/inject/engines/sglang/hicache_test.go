// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"strings"
	"testing"

	"github.com/peercache/peercache/operator/inject/engines"
)

func TestAdviceFor(t *testing.T) {
	for args, want := range map[string]string{
		"": "",
		"--hicache-write-policy write_through --hicache-storage-prefetch-policy timeout": "",
		"--hicache-mem-layout page_first --hicache-ratio 2":                              "",
		"--hicache-ratio 10":                                                     "",
		"--hicache-ratio 0.5":                                                    "has --hicache-ratio below 1",
		"--hicache-ratio=.5":                                                     "has --hicache-ratio below 1",
		"--hicache-write-policy write_back":                                      "write_back: a page is stored only when SGLang evicts",
		"--hicache-write-policy=write_through_selective":                         "for the 2nd time",
		"--hicache-storage-prefetch-policy best_effort":                          "waits 1 s and 0.25 s for each 1,024 tokens",
		"--hicache-storage-prefetch-policy wait_complete":                        "as long as they take",
		"--hicache-mem-layout layer_first":                                       "page_first, the default",
		"--hicache-write-policy write_back --hicache-write-policy write_through": "",

		`--hicache-storage-backend-extra-config {"prefetch_threshold":512}`:        "",
		`--hicache-storage-backend-extra-config {"prefetch_threshold":4096}`:       "the default is 256 tokens",
		`--hicache-storage-backend-extra-config {"prefetch_timeout_base":0.5}`:     "",
		`--hicache-storage-backend-extra-config {"prefetch_timeout_base":0.05}`:    "the default is 1 s",
		`--hicache-storage-backend-extra-config {"a":1,"prefetch_timeout_base":0}`: "the default is 1 s",
	} {
		got := AdviceFor(engines.Argv{Words: strings.Fields(args)})
		if len(got) > 1 || (len(got) == 0) != (want == "") || !strings.Contains(strings.Join(got, ""), want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	if got := AdviceFor(engines.Argv{Words: strings.Fields("--hicache-ratio 0.1 --hicache-write-policy write_back")}); len(got) != 2 {
		t.Errorf("two settings: %q", got)
	}
}

func TestUnsizedMemory(t *testing.T) {
	for args, want := range map[string]bool{"": true, "--hicache-size 100": false, "--hicache-ratio=2": false, "--hicache-host-memory-fraction .5": false} {
		if got := UnsizedMemory(engines.Argv{Words: strings.Fields(args)}); got != want {
			t.Errorf("%q: %t", args, got)
		}
	}
}
