// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"strings"
	"testing"

	"github.com/peercache/peercache/operator/inject/engines"
)

func TestRanks(t *testing.T) {
	for args, want := range map[string]int{
		"":                                    1,
		"--tp 8":                              8,
		"--tp-size=4 --pp 2":                  8,
		"--tp 4 --dp 2":                       8,
		"--tp 8 --dp 8 --enable-dp-attention": 8,
		"--tp 16 --nnodes 2":                  8,
		"--tensor-parallel-size 16 --nnodes $(LWS_GROUP_SIZE)": 1,
		"--tp $(TP)":        1,
		"--tp 0":            1,
		"--tp 1 --nnodes 4": 1,
	} {
		if got := Ranks(engines.Argv{Words: strings.Fields(args)}); got != want {
			t.Errorf("%s: %d ranks, want %d", args, got, want)
		}
	}
}
