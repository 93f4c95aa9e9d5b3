// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
)

// Advice is about a setting of HiCache that SGLang accepts and that costs hits.
type Advice struct {
	Flag  engines.Flag
	Value *regexp.Regexp
	text  string
}

// Text is the advice for a container that has the setting.
func (a Advice) Text() string { return "has " + a.Flag.Name + " " + a.text }

var (
	memoryRatio    = engines.Flag{Name: "--hicache-ratio", Valued: true}
	memorySize     = engines.Flag{Name: "--hicache-size", Valued: true}
	memoryFraction = engines.Flag{Name: "--hicache-host-memory-fraction", Valued: true}
	writePolicy    = engines.Flag{Name: "--hicache-write-policy", Valued: true}
	prefetchPolicy = engines.Flag{Name: "--hicache-storage-prefetch-policy", Valued: true}
	memoryLayout   = engines.Flag{Name: "--hicache-mem-layout", Valued: true}
)

// Advices are all of them. Figures are those of SGLang 0.5.23 (unified_radix_cache, cache_controller).
var Advices = []Advice{
	{writePolicy, regexp.MustCompile(`^write_back$`), "write_back: a page is stored only when SGLang evicts it from host memory, so other " +
		"engines find it late, and never if the pod ends before; write_through, the default, stores it at once"},
	{writePolicy, regexp.MustCompile(`^write_through_selective$`), "write_through_selective: a page is stored when it is used for the 2nd time, " +
		"so the first engine elsewhere that needs it computes it; write_through, the default, stores it at once"},
	{prefetchPolicy, regexp.MustCompile(`^best_effort$`), "best_effort: a request waits for no page, and what has not come when the GPU is free is " +
		"computed; timeout, the default, waits 1 s and 0.25 s for each 1,024 tokens at most"},
	{prefetchPolicy, regexp.MustCompile(`^wait_complete$`), "wait_complete: a request waits for its pages as long as they take; timeout, the " +
		"default, waits 1 s and 0.25 s for each 1,024 tokens at most"},
	{memoryLayout, regexp.MustCompile(`^layer_first$`), "layer_first: a page is in one or two pieces for each layer, and index keys are copied once " +
		"more; with page_first, the default, it is in one or two in all, and none is copied"},
	{memoryRatio, regexp.MustCompile(`^(0|0?\.[0-9]+)$`), "below 1: at most half of the host memory is for pages under way from PeerCache, so less " +
		"than half of what the GPU holds, and further requests are computed; the default is 2"},
	{ExtraConfig, regexp.MustCompile(`"prefetch_threshold"\s*:\s*[0-9]{4}`), "with prefetch_threshold of 1,000 or more: PeerCache is not asked for " +
		"shorter pieces of a prompt; the default is 256 tokens"},
	{ExtraConfig, regexp.MustCompile(`"prefetch_timeout_base"\s*:\s*0(\.0[0-9]*)?\s*[,}]`), "with prefetch_timeout_base below 0.1: what has not " +
		"come by then is computed; the default is 1 s"},
}

// AdviceFor returns the advice about what SGLang's arguments set.
func AdviceFor(args engines.Argv) (texts []string) {
	for _, a := range Advices {
		if use := args.Last(a.Flag); use.Given && a.Value.MatchString(use.Value) {
			texts = append(texts, a.Text())
		}
	}
	return texts
}

// hicacheReserve is what SGLang leaves of host memory before it takes hicacheShare of it for HiCache.
const (
	hicacheReserve = 10 << 30
	hicacheShare   = 0.8
)

// Advice implements engines.Engine.
func (Engine) Advice(c *corev1.Container) string {
	if !UnsizedMemory(engines.ContainerArgv(c)) {
		return ""
	}
	share := "80 % of the free memory of its machine but 10Gi"
	if limit := c.Resources.Limits.Memory(); !limit.IsZero() {
		share = fmt.Sprintf("%.0fGi of its limit of %s", max(0, hicacheShare*(limit.AsApproximateFloat64()-hicacheReserve)/(1<<30)), limit)
	}
	return fmt.Sprintf("leaves the host memory of HiCache to SGLang: at its start all ranks take up to %s, "+
		"and at most twice what they have on the GPUs. Write --hicache-size (GB for each rank) where the member's pool or others need it", share)
}

// UnsizedMemory is true where SGLang chooses by itself how much host memory HiCache takes.
func UnsizedMemory(args engines.Argv) bool {
	return !args.Has(memoryRatio) && !args.Has(memorySize) && !args.Has(memoryFraction)
}
