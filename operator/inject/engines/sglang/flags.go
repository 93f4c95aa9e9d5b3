// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"slices"
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
)

// The flags of SGLang (0.5.23) that injection reads or writes.
var (
	ModelPath      = engines.Flag{Name: "--model-path", Aliases: []string{"--model"}, Valued: true}
	Hierarchical   = engines.Flag{Name: "--enable-hierarchical-cache", Aliases: []string{"--enable-hicache"}}
	StorageBackend = engines.Flag{Name: "--hicache-storage-backend", Valued: true}
	ExtraConfig    = engines.Flag{
		Name: "--hicache-storage-backend-extra-config", Shortest: "--hicache-storage-backend-", Valued: true,
	}
	Disaggregation   = engines.Flag{Name: "--disaggregation-mode", Valued: true}
	DecodeRadixCache = engines.Flag{Name: "--disaggregation-decode-enable-radix-cache"}
	DecodeOffload    = engines.Flag{Name: "--disaggregation-decode-enable-offload-kvcache"}
)

// DynamicBackend is the backend that SGLang loads from the module that the extra config names.
const DynamicBackend = "dynamic"

// Blocker is a flag with which SGLang refuses HiCache, or a storage backend of it.
type Blocker struct {
	Flag engines.Flag
	// Value is the one that blocks, "" for every one, and Except one that does not.
	Value, Except string
	// With are further flags, one of which has to be there; nil where none has to.
	With []engines.Flag
	// Sometimes is true where the model or the GPU decides, too. It does not block where the user has enabled HiCache, and so knows
	// that SGLang starts with it.
	Sometimes bool
	why       string
}

// Blocks is true for arguments with which SGLang would not start as it does without what is added.
func (b Blocker) Blocks(args engines.Argv) bool {
	use := args.Last(b.Flag)
	return use.Given && (b.Value == "" || b.Value == use.Value) && (b.Except == "" || b.Except != use.Value) &&
		(b.With == nil || slices.ContainsFunc(b.With, args.Has)) && (!b.Sometimes || !args.Has(Hierarchical))
}

// Reason is the reason for a container that has the flag.
func (b Blocker) Reason() string {
	text := "uses " + strings.TrimSpace(b.Flag.Name+" "+b.Value) + ": " + b.why
	if b.Sometimes {
		text += ": add " + Hierarchical.Name + " where SGLang starts with it"
	}
	return text
}

const (
	notWithStorage = "SGLang does not combine it with a storage backend"
	notWithHiCache = "SGLang does not combine it with HiCache"
)

// Blockers are all flags that rule out HiCache or a storage backend. refusals.txt has what SGLang's sources say of them.
var Blockers = []Blocker{
	{Flag: engines.Flag{Name: "--disable-radix-cache"}, why: "HiCache extends the radix cache, which it turns off"},
	{Flag: engines.Flag{Name: "--radix-cache-backend", Valued: true}, why: "it chooses another cache"},
	{Flag: engines.Flag{Name: "--enable-lmcache"}, why: "it chooses another cache"},
	{Flag: engines.Flag{Name: "--enable-flexkv"}, why: "it chooses another cache"},
	{Flag: engines.Flag{Name: "--enable-unified-cache-external-linker"}, why: "it chooses another cache"},
	{Flag: engines.Flag{Name: "--enable-kv-cache-sharding"}, why: notWithStorage},
	{
		Flag: engines.Flag{Name: "--disaggregation-decode-allocation-policy", Valued: true}, Value: "prefill_complete", why: notWithStorage,
	},
	{Flag: engines.Flag{Name: "--enable-int8-mamba-checkpoint"}, why: notWithHiCache},
	{
		Flag: engines.Flag{Name: "--enable-unified-memory"}, With: []engines.Flag{{Name: "--speculative-algorithm", Valued: true}, DecodeOffload},
		Sometimes: true, why: notWithHiCache + " for some draft models",
	},
	{
		Flag:   engines.Flag{Name: "--dcp-size", Aliases: []string{"--decode-context-parallel-size"}, Valued: true},
		Except: "1", Sometimes: true, why: notWithHiCache + " for some models",
	},
	{
		Flag: engines.Flag{Name: "--kv-cache-dtype", Valued: true}, Value: "nvfp4", Sometimes: true, why: notWithHiCache + " on some GPUs",
	},
}
