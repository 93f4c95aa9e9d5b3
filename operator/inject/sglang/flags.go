// SPDX-License-Identifier: Apache-2.0

// Package sglang describes SGLang's command line: which words start SGLang, its flags, and the HiCache flags that connect it
// with PeerCache. Its functions are pure.
package sglang

import (
	"slices"
	"strings"
)

// Flag is a flag of SGLang. Shortest is the shortest accepted abbreviation, if any; Valued is true for a flag with a
// value.
type Flag struct {
	Name     string
	Aliases  []string
	Shortest string
	Valued   bool
}

func (f Flag) matches(word string) bool {
	return word == f.Name || slices.Contains(f.Aliases, word) ||
		f.Shortest != "" && strings.HasPrefix(word, f.Shortest) && strings.HasPrefix(f.Name, word)
}

// The flags of SGLang (0.5.23) that injection reads or writes.
var (
	ModelPath      = Flag{Name: "--model-path", Aliases: []string{"--model"}, Valued: true}
	ConfigFile     = Flag{Name: "--config", Valued: true}
	Hierarchical   = Flag{Name: "--enable-hierarchical-cache", Aliases: []string{"--enable-hicache"}}
	StorageBackend = Flag{Name: "--hicache-storage-backend", Valued: true}
	ExtraConfig    = Flag{
		Name: "--hicache-storage-backend-extra-config", Shortest: "--hicache-storage-backend-", Valued: true,
	}
	Disaggregation   = Flag{Name: "--disaggregation-mode", Valued: true}
	DecodeRadixCache = Flag{Name: "--disaggregation-decode-enable-radix-cache"}
	DecodeOffload    = Flag{Name: "--disaggregation-decode-enable-offload-kvcache"}
)

// DynamicBackend is the backend that SGLang loads from the module that the extra config names.
const DynamicBackend = "dynamic"

// Blocker is a flag with which SGLang refuses HiCache, or a storage backend of it.
type Blocker struct {
	Flag Flag
	// Value is the one that blocks, "" for every one, and Except one that does not.
	Value, Except string
	// With are further flags, one of which has to be there; nil where none has to.
	With []Flag
	// Sometimes is true where the model or the GPU decides, too. It does not block where the user has enabled HiCache, and so knows
	// that SGLang starts with it.
	Sometimes bool
	why       string
}

// Blocks is true for arguments with which SGLang would not start as it does without what is added.
func (b Blocker) Blocks(args Argv) bool {
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
	{Flag: Flag{Name: "--disable-radix-cache"}, why: "HiCache extends the radix cache, which it turns off"},
	{Flag: Flag{Name: "--radix-cache-backend", Valued: true}, why: "it chooses another cache"},
	{Flag: Flag{Name: "--enable-lmcache"}, why: "it chooses another cache"},
	{Flag: Flag{Name: "--enable-flexkv"}, why: "it chooses another cache"},
	{Flag: Flag{Name: "--enable-unified-cache-external-linker"}, why: "it chooses another cache"},
	{Flag: Flag{Name: "--enable-kv-cache-sharding"}, why: notWithStorage},
	{
		Flag: Flag{Name: "--disaggregation-decode-allocation-policy", Valued: true}, Value: "prefill_complete", why: notWithStorage,
	},
	{Flag: Flag{Name: "--enable-int8-mamba-checkpoint"}, why: notWithHiCache},
	{
		Flag: Flag{Name: "--enable-unified-memory"}, With: []Flag{{Name: "--speculative-algorithm", Valued: true}, DecodeOffload},
		Sometimes: true, why: notWithHiCache + " for some draft models",
	},
	{
		Flag:   Flag{Name: "--dcp-size", Aliases: []string{"--decode-context-parallel-size"}, Valued: true},
		Except: "1", Sometimes: true, why: notWithHiCache + " for some models",
	},
	{
		Flag: Flag{Name: "--kv-cache-dtype", Valued: true}, Value: "nvfp4", Sometimes: true, why: notWithHiCache + " on some GPUs",
	},
}
