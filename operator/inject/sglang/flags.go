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

// Blocker is a flag with which SGLang refuses a storage backend of HiCache.
type Blocker struct {
	Flag  Flag
	Value string // "" matches every value
	why   string
}

// Reason is the reason for a container that has the flag.
func (b Blocker) Reason() string {
	return "uses " + strings.TrimSpace(b.Flag.Name+" "+b.Value) + ": " + b.why
}

// Blockers are all flags that rule out a storage backend.
var Blockers = []Blocker{
	{Flag{Name: "--disable-radix-cache"}, "", "HiCache extends the radix cache, which it turns off"},
	{Flag{Name: "--radix-cache-backend", Valued: true}, "", "it chooses another cache"},
	{Flag{Name: "--enable-lmcache"}, "", "it chooses another cache"},
	{Flag{Name: "--enable-flexkv"}, "", "it chooses another cache"},
	{Flag{Name: "--enable-unified-cache-external-linker"}, "", "it chooses another cache"},
	{Flag{Name: "--enable-kv-cache-sharding"}, "", "SGLang does not combine it with a storage backend"},
	{
		Flag{Name: "--disaggregation-decode-allocation-policy", Valued: true}, "prefill_complete",
		"SGLang does not combine it with a storage backend",
	},
}
