// SPDX-License-Identifier: Apache-2.0

package vllm

import (
	"slices"
	"strconv"
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
)

// The flags of vLLM that injection reads or writes. Shortest is what fits no other flag of vLLM.
var (
	TransferConfig = engines.Flag{Name: "--kv-transfer-config", Shortest: "--kv-t", Valued: true}
	OffloadingSize = engines.Flag{Name: "--kv-offloading-size", Shortest: "--kv-offloading-s", Valued: true}

	// vLLM makes --disable-x of each --enable-x, besides Python's --no-enable-x. The last of all counts.
	prefixCaching = []engines.Flag{
		{Name: "--enable-prefix-caching", Shortest: "--enable-pre"},
		{Name: "--no-enable-prefix-caching", Shortest: "--no-enable-pre"},
		{Name: "--disable-prefix-caching", Shortest: "--disable-pre"},
	}

	dataParallel      = engines.Flag{Name: "--data-parallel-size", Aliases: []string{"-dp"}, Valued: true}
	dataParallelLocal = engines.Flag{
		Name: "--data-parallel-size-local", Shortest: "--data-parallel-size-", Aliases: []string{"-dpl"}, Valued: true,
	}
	dataParallelRank = engines.Flag{Name: "--data-parallel-rank", Aliases: []string{"-dpn"}, Valued: true}
	externalBalancer = engines.Flag{Name: "--data-parallel-external-lb", Aliases: []string{"-dpe"}}
	nnodes           = engines.Flag{Name: "--nnodes", Aliases: []string{"-n"}, Valued: true}
)

// normal returns the arguments with the names of flags as vLLM's parser reads them: with dashes, up to the first dot.
func normal(args engines.Argv) engines.Argv {
	words := slices.Clone(args.Words)
	for i := args.Start; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "--") {
			continue
		}
		end := strings.IndexAny(words[i], ".=")
		if end < 0 {
			end = len(words[i])
		}
		words[i] = strings.ReplaceAll(words[i][:end], "_", "-") + words[i][end:]
	}
	return engines.Argv{Words: words, Start: args.Start}
}

// withoutPrefixCaching returns the flag that turns prefix caching off, or "".
func withoutPrefixCaching(args engines.Argv) string {
	last, at := "", -1
	for _, flag := range prefixCaching {
		if use := args.Last(flag); use.Given && use.Index > at {
			last, at = flag.Name, use.Index
		}
	}
	if last == prefixCaching[0].Name {
		return ""
	}
	return last
}

// Ranks implements engines.Engine. The scheduler process of each data-parallel rank attaches; tensor-parallel ranks do not.
func (Engine) Ranks(args engines.Argv) int {
	args = normal(args)
	if args.Has(dataParallelRank) || args.Has(externalBalancer) {
		return 1
	}
	if local := args.Last(dataParallelLocal); local.Given {
		return size(local)
	}
	return max(1, size(args.Last(dataParallel))/size(args.Last(nnodes)))
}

// size is the number in a use of a flag; 1 where there is none.
func size(use engines.Occurrence) int {
	n, err := strconv.Atoi(use.Value)
	if err != nil || n < 1 || n > 1<<10 {
		return 1
	}
	return n
}
