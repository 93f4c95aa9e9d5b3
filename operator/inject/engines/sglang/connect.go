// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"slices"
	"strconv"

	"github.com/peercache/peercache/operator/inject/engines"
)

// Connect implements engines.Engine.
func (Engine) Connect(args engines.Argv, delivery engines.Delivery, link engines.Link) (engines.Change, string) {
	if delivery != engines.DeliveryFlags {
		return engines.Change{}, ""
	}
	change, reason := decideFlags(args, Settings(link))
	if reason != "" {
		return engines.Change{}, reason
	}
	change.Add = append(change.Add, pageSizeFlags(args)...)
	return change, ""
}

// decideFlags returns the change with which SGLang uses PeerCache, or a reason.
func decideFlags(args engines.Argv, settings []engines.Setting) (engines.Change, string) {
	for _, b := range Blockers {
		if b.Blocks(args) {
			return engines.Change{}, b.Reason()
		}
	}
	wantHierarchical, reason := hierarchicalFor(args)
	if reason != "" {
		return engines.Change{}, reason
	}

	var c engines.Change
	if wantHierarchical && !args.Has(Hierarchical) {
		c.Add = append(c.Add, Hierarchical.Name)
	}
	backend := args.Last(StorageBackend)
	if backend.Given && !slices.Contains(OurBackends, backend.Value) {
		return engines.Change{}, OtherBackendGiven(backend.Value)
	}
	if !backend.Given {
		c.Add = append(c.Add, StorageBackend.Name, DynamicBackend)
	}

	config := args.Last(ExtraConfig)
	if !config.Given {
		c.Add = append(c.Add, ExtraConfig.Name, NewExtraConfig(settings))
		return c, ""
	}
	merged, reason := MergeExtraConfig(config.Value, settings)
	if reason != "" {
		return engines.Change{}, reason
	}
	if merged != config.Value {
		c.Rewrite = &engines.Rewrite{Index: config.Index, Word: config.Prefix + merged}
	}
	return c, ""
}

// pageSizeFlags are the flags that give SGLang a page size, where the user gives none and SGLang's checks allow it.
func pageSizeFlags(args engines.Argv) []string {
	if args.Has(PageSize) {
		return nil
	}
	if adds, _ := AddsPageSize(args); !adds {
		return nil
	}
	return []string{PageSize.Name, strconv.Itoa(PageTokens)}
}

func pageSizeNote(args engines.Argv) string {
	size := args.Last(PageSize)
	if size.Value == "1" {
		return NotePageOfToken()
	}
	if size.Given {
		return ""
	}
	if _, why := AddsPageSize(args); why != "" {
		return NoteNoPageSize(why)
	}
	return ""
}

// hierarchicalFor is true where SGLang needs --enable-hierarchical-cache. It returns a reason where HiCache cannot be used. A
// decode server has no radix cache by default, and then refuses the flag; it can still write pages to a storage backend.
func hierarchicalFor(args engines.Argv) (bool, string) {
	if args.Last(Disaggregation).Value != "decode" || args.Has(DecodeRadixCache) {
		return true, ""
	}
	if args.Has(DecodeOffload) {
		return false, ""
	}
	return false, DecodeWithoutRadixCache()
}
