// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/inject/sglang"
)

// change is a change of the arguments of one container. The zero value changes nothing.
type change struct {
	rewrite *rewrite
	add     []string
}

// rewrite replaces one word of the arguments.
type rewrite struct {
	index int
	word  string
}

// decideFlags returns the change with which SGLang uses PeerCache, or a reason.
func decideFlags(args sglang.Argv, settings []sglang.Setting) (change, string) {
	for _, b := range sglang.Blockers {
		if b.Blocks(args) {
			return change{}, b.Reason()
		}
	}
	wantHierarchical, reason := hierarchicalFor(args)
	if reason != "" {
		return change{}, reason
	}

	var c change
	if wantHierarchical && !args.Has(sglang.Hierarchical) {
		c.add = append(c.add, sglang.Hierarchical.Name)
	}
	backend := args.Last(sglang.StorageBackend)
	if backend.Given && !slices.Contains(sglang.OurBackends, backend.Value) {
		return change{}, reasons.OtherBackend(backend.Value)
	}
	if !backend.Given {
		c.add = append(c.add, sglang.StorageBackend.Name, sglang.DynamicBackend)
	}

	config := args.Last(sglang.ExtraConfig)
	if !config.Given {
		c.add = append(c.add, sglang.ExtraConfig.Name, sglang.NewExtraConfig(settings))
		return c, ""
	}
	merged, reason := mergeExtraConfig(config.Value, settings)
	if reason != "" {
		return change{}, reason
	}
	if merged != config.Value {
		c.rewrite = &rewrite{index: config.Index, word: config.Prefix + merged}
	}
	return c, ""
}

// pageSizeFlags are the flags that give SGLang a page size, where the user gives none and SGLang's checks allow it.
func pageSizeFlags(args sglang.Argv) []string {
	if args.Has(sglang.PageSize) {
		return nil
	}
	if adds, _ := sglang.AddsPageSize(args); !adds {
		return nil
	}
	return []string{sglang.PageSize.Name, strconv.Itoa(sglang.PageTokens)}
}

// settingNotes returns what the user should know about the settings of a container, as the user wrote it.
func settingNotes(pod *corev1.Pod, c *corev1.Container, delivery Delivery, annotated bool) []string {
	if delivery == DeliveryEnvironment {
		gives := func(word string) bool { return strings.Contains(word, sglang.PageSize.Name) }
		if takesFlags(pod) || slices.ContainsFunc(sglang.ContainerArgv(c).Words, gives) {
			return nil
		}
		return []string{reasons.NotePageSizeInScript()}
	}
	_, args := deliveryFor(c, annotated)
	return append([]string{pageSizeNote(args)}, sglang.AdviceFor(args)...)
}

func pageSizeNote(args sglang.Argv) string {
	size := args.Last(sglang.PageSize)
	if size.Value == "1" {
		return reasons.NotePageOfToken()
	}
	if size.Given {
		return ""
	}
	if _, why := sglang.AddsPageSize(args); why != "" {
		return reasons.NoteNoPageSize(why)
	}
	return ""
}

// hierarchicalFor is true where SGLang needs --enable-hierarchical-cache. It returns a reason where HiCache cannot be used. A
// decode server has no radix cache by default, and then refuses the flag; it can still write pages to a storage backend.
func hierarchicalFor(args sglang.Argv) (bool, string) {
	if args.Last(sglang.Disaggregation).Value != "decode" || args.Has(sglang.DecodeRadixCache) {
		return true, ""
	}
	if args.Has(sglang.DecodeOffload) {
		return false, ""
	}
	return false, reasons.DecodeWithoutRadixCache()
}
