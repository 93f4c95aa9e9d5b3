// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"strconv"

	"github.com/peercache/peercache/operator/inject/engines"
)

var (
	tensorParallel   = engines.Flag{Name: "--tp-size", Aliases: []string{"--tp", "--tensor-parallel-size"}, Valued: true}
	pipelineParallel = engines.Flag{Name: "--pp-size", Aliases: []string{"--pp", "--pipeline-parallel-size"}, Valued: true}
	dataParallel     = engines.Flag{Name: "--dp-size", Aliases: []string{"--dp", "--data-parallel-size"}, Valued: true}
	dataAttention    = engines.Flag{Name: "--enable-dp-attention"} // it splits the TP ranks, and adds none
)

// Ranks is the number of SGLang's processes that attach to a node, each by itself; 1 where the arguments do not tell.
func Ranks(args engines.Argv) int {
	size := func(f engines.Flag) int {
		use := args.Last(f)
		if !use.Given {
			return 1
		}
		n, err := strconv.Atoi(use.Value)
		if err != nil || n < 1 || n > 1<<10 {
			return 0
		}
		return n
	}
	all := size(tensorParallel) * size(pipelineParallel)
	if !args.Has(dataAttention) {
		all *= size(dataParallel)
	}
	if machines := size(nnodes); machines > 0 {
		return max(1, all/machines)
	}
	return 1
}
