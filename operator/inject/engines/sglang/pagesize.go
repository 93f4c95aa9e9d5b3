// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"regexp"
	"strconv"

	"github.com/peercache/peercache/operator/inject/engines"
)

// PageTokens is the page size that injection adds. By itself SGLang (0.5.23) makes a page of each token on most GPUs, and each
// page costs a lookup and a transfer of its own.
const PageTokens = 64

// The flags on which the page size depends.
var (
	PageSize         = engines.Flag{Name: "--page-size", Shortest: "--page-", Valued: true}
	Speculative      = engines.Flag{Name: "--speculative-algorithm", Shortest: "--speculative-algo", Valued: true}
	EagleTopK        = engines.Flag{Name: "--speculative-eagle-topk", Valued: true}
	nnodes           = engines.Flag{Name: "--nnodes", Valued: true}
	attention        = engines.Flag{Name: "--attention-backend", Valued: true}
	prefillAttention = engines.Flag{Name: "--prefill-attention-backend", Valued: true}
	decodeAttention  = engines.Flag{Name: "--decode-attention-backend", Valued: true}
)

// PageRule matches a flag with which injection adds no page size.
type PageRule struct {
	Flag  engines.Flag
	Value *regexp.Regexp // nil matches every value
	// IfTrees is true for a rule that holds only while speculative tokens form a tree: unless EagleTopK is 1.
	IfTrees bool
	// Why is "" where SGLang then chooses larger pages by itself.
	Why string
}

const refuses = ", which SGLang does not combine with larger pages"

var pagedAttention = regexp.MustCompile(
	`^(dsa|nsa|qsa|dsv4|compressed|fa4|flashmla|trtllm_mla|cutedsl_mla|tokenspeed_mla|trtllm_mha|hpc_ops|ascend|intel_xpu)$`)

// PageRules are what SGLang's own checks ask for (0.5.23: speculative_hook, mamba_hook, attention_hook, overrides and
// model_overrides of arg_groups; attention/minicpm; the handshake of disaggregation). The first that matches counts.
var PageRules = []PageRule{
	// The other servers and ranks may be pods without PeerCache, or missed ones, and SGLang ends or stalls where sizes differ.
	{
		Flag: Disaggregation, Value: regexp.MustCompile(`^(prefill|decode)$`),
		Why: "uses " + Disaggregation.Name + ", where prefill and decode servers need the same",
	},
	{Flag: nnodes, Value: regexp.MustCompile(`^([^1].*|1.+)$`), Why: "uses " + nnodes.Name + ", where all ranks need the same"},
	{Flag: Speculative, Value: regexp.MustCompile(`(?i)^ngram$`), Why: "uses " + Speculative.Name + " NGRAM" + refuses + " everywhere"},
	{Flag: Speculative, IfTrees: true, Why: "uses " + Speculative.Name + " without " + EagleTopK.Name + " 1" + refuses + " everywhere"},
	{
		Flag: engines.Flag{Name: "--mamba-radix-cache-strategy", Valued: true}, Value: regexp.MustCompile(`^no_buffer$`),
		Why: "uses --mamba-radix-cache-strategy no_buffer" + refuses,
	},
	{Flag: engines.Flag{Name: "--enable-linear-replayssm"}, Why: "uses --enable-linear-replayssm" + refuses},
	{Flag: engines.Flag{Name: "--linear-attn-backend", Valued: true}, Why: "uses --linear-attn-backend" + refuses + " everywhere"},
	{Flag: attention, Value: regexp.MustCompile(`^minicpm_`), Why: "uses an " + attention.Name + " of MiniCPM" + refuses},
	{
		Flag: ModelPath, Value: regexp.MustCompile(`(?i)minicpm|lfm2|zaya|jet-?(nemotron|vlm)|minimax-?m3`),
		Why: "runs a model of a family that takes certain page sizes only",
	},
	{Flag: attention, Value: pagedAttention},
	{Flag: prefillAttention, Value: pagedAttention},
	{Flag: decodeAttention, Value: pagedAttention},
}

// PageMultiples are the flags whose value SGLang wants to be a multiple of the page size.
var PageMultiples = []engines.Flag{{Name: "--chunked-prefill-size", Valued: true}, {Name: "--mamba-track-interval", Valued: true}}

// Positive matches a positive number.
var Positive = regexp.MustCompile(`^[0-9]{1,9}$`)

// NotMultiple is why a page size does not suit the value of a flag.
func NotMultiple(f engines.Flag, value string) string {
	return "has " + f.Name + " " + value + ", which is not a multiple of " + strconv.Itoa(PageTokens)
}

// AddsPageSize says whether SGLang's arguments, which give no page size, get one. If not, why is the reason; "" where SGLang
// chooses larger pages by itself.
func AddsPageSize(args engines.Argv) (adds bool, why string) {
	for _, r := range PageRules {
		use := args.Last(r.Flag)
		if use.Given && (r.Value == nil || r.Value.MatchString(use.Value)) && (!r.IfTrees || args.Last(EagleTopK).Value != "1") {
			return false, r.Why
		}
	}
	for _, f := range PageMultiples {
		value := args.Last(f).Value
		if n, err := strconv.Atoi(value); Positive.MatchString(value) && err == nil && n%PageTokens != 0 {
			return false, NotMultiple(f, value)
		}
	}
	return true, ""
}
