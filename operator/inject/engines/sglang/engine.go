// SPDX-License-Identifier: Apache-2.0

// Package sglang describes SGLang's command line: which words start SGLang, its flags, and the HiCache flags that connect it
// with PeerCache. Its functions are pure.
package sglang

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
)

// DefaultContainer is the name of a container that counts as SGLang whatever its command.
const DefaultContainer = "sglang"

// Engine is SGLang.
type Engine struct{}

// About implements engines.Engine.
func (Engine) About() engines.About {
	return engines.About{Name: "SGLang", ID: "sglang", Variable: names.EnvFlags, Other: "backend"}
}

// Launch implements engines.Engine.
func (Engine) Launch(words []string) (index int, started bool) {
	index = LaunchWord(words)
	return index, index >= 0 || slices.ContainsFunc(words, LaunchText.MatchString)
}

// Claims implements engines.Engine.
func (Engine) Claims(c *corev1.Container) bool { return c.Name == DefaultContainer }

// TakesArguments implements engines.Engine. The arguments must look like SGLang's, and must exist: new ones would replace the
// default arguments of the image.
func (Engine) TakesArguments(args engines.Argv) bool {
	return len(args.Words) > 0 && strings.HasPrefix(args.Words[0], "-") && args.Has(ModelPath)
}

// AllFlags implements engines.Engine.
func (Engine) AllFlags(link engines.Link) string { return AllFlags(Settings(link)) }

// Shown implements engines.Engine.
func (Engine) Shown(args engines.Argv) (note string, shown bool) {
	if other := OtherBackend(args.Words); other != "" {
		return NoteOtherBackend(other), true
	}
	return "", false
}

// Notes implements engines.Engine.
func (Engine) Notes(args engines.Argv, delivery engines.Delivery) []string {
	if delivery == engines.DeliveryFlags {
		return append([]string{pageSizeNote(args)}, AdviceFor(args)...)
	}
	if slices.ContainsFunc(args.Words, func(word string) bool { return strings.Contains(word, PageSize.Name) }) {
		return nil
	}
	return []string{NotePageSizeInScript()}
}

// Ranks implements engines.Engine.
func (Engine) Ranks(args engines.Argv) int { return Ranks(args) }
