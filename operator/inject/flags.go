// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"
)

// The flags of SGLang (0.5.23) that injection reads or writes.
var (
	modelPath      = flag{name: "--model-path", aliases: []string{"--model"}, valued: true}
	configFile     = flag{name: "--config", valued: true}
	hierarchical   = flag{name: "--enable-hierarchical-cache", aliases: []string{"--enable-hicache"}}
	storageBackend = flag{name: "--hicache-storage-backend", valued: true}
	extraConfig    = flag{
		name: "--hicache-storage-backend-extra-config", shortest: "--hicache-storage-backend-", valued: true,
	}
	disaggregation   = flag{name: "--disaggregation-mode", valued: true}
	decodeRadixCache = flag{name: "--disaggregation-decode-enable-radix-cache"}
	decodeOffload    = flag{name: "--disaggregation-decode-enable-offload-kvcache"}
)

// dynamicBackend is the backend that SGLang loads from the module that the extra config names.
const dynamicBackend = "dynamic"

// blocker is a flag with which SGLang refuses to start when HiCache has a storage backend.
type blocker struct {
	flag  flag
	value string // "" stands for any
	why   string
}

func (b blocker) reason() string {
	return "uses " + strings.TrimSpace(b.flag.name+" "+b.value) + ": " + b.why
}

var blockers = []blocker{
	{flag{name: "--disable-radix-cache"}, "", "HiCache extends the radix cache, which it turns off"},
	{flag{name: "--radix-cache-backend", valued: true}, "", "it chooses another cache"},
	{flag{name: "--enable-lmcache"}, "", "it chooses another cache"},
	{flag{name: "--enable-flexkv"}, "", "it chooses another cache"},
	{flag{name: "--enable-unified-cache-external-linker"}, "", "it chooses another cache"},
	{flag{name: "--enable-kv-cache-sharding"}, "", "SGLang does not combine it with a storage backend"},
	{
		flag{name: "--disaggregation-decode-allocation-policy", valued: true}, "prefill_complete",
		"SGLang does not combine it with a storage backend",
	},
}

// change is what to do to the arguments of one container. The zero value changes nothing.
type change struct {
	rewrite *rewrite
	add     []string
}

// rewrite replaces one word.
type rewrite struct {
	index int
	word  string
}

// decideFlags says how to change the arguments so that SGLang uses PeerCache, or why they are left alone.
func decideFlags(args argv, settings []setting) (change, string) {
	for _, b := range blockers {
		if use := args.last(b.flag); use.given && (b.value == "" || b.value == use.value) {
			return change{}, b.reason()
		}
	}
	wantHierarchical, reason := hierarchicalFor(args)
	if reason != "" {
		return change{}, reason
	}

	var c change
	if wantHierarchical && !args.has(hierarchical) {
		c.add = append(c.add, hierarchical.name)
	}
	backend := args.last(storageBackend)
	if backend.given && !slices.Contains([]string{dynamicBackend, backendName}, backend.value) {
		return change{}, reasonBackend(backend.value)
	}
	if !backend.given {
		c.add = append(c.add, storageBackend.name, dynamicBackend)
	}

	config := args.last(extraConfig)
	if !config.given {
		c.add = append(c.add, extraConfig.name, newExtraConfig(settings))
		return c, ""
	}
	merged, reason := mergeExtraConfig(config.value, settings)
	if reason != "" {
		return change{}, reason
	}
	if merged != config.value {
		c.rewrite = &rewrite{index: config.index, word: config.prefix + merged}
	}
	return c, ""
}

// hierarchicalFor says whether SGLang needs --enable-hierarchical-cache, or why HiCache cannot be used.
// A decode server has no radix cache unless it is asked to, and refuses the flag then; it can still write
// finished pages to a storage backend.
func hierarchicalFor(args argv) (bool, string) {
	if args.last(disaggregation).value != "decode" || args.has(decodeRadixCache) {
		return true, ""
	}
	if args.has(decodeOffload) {
		return false, ""
	}
	return false, reasonDecode()
}

// allFlags is the value of PEERCACHE_SGLANG_ARGS: every flag, to be split at blanks.
func allFlags(settings []setting) string {
	return strings.Join([]string{
		hierarchical.name, storageBackend.name, dynamicBackend, extraConfig.name, newExtraConfig(settings),
	}, " ")
}
