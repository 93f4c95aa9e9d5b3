// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// argv is what a container runs: its command and its args as one list, and where the flags of the program
// begin. The zero start means that every word may be a flag.
type argv struct {
	words []string
	start int
}

func containerArgv(c *corev1.Container) argv {
	return argv{words: slices.Concat(c.Command, c.Args)}
}

// occurrence is one use of a flag.
type occurrence struct {
	given  bool
	value  string // "" for a flag without a value
	index  int    // the word that holds the value
	prefix string // what precedes the value in that word: "--flag=" or ""
}

// last finds the use of a flag that counts: SGLang's parser lets the last one win. The flag is also found
// under every spelling in aliases, and where shortest is not empty, under the abbreviations that SGLang's
// parser accepts, down to shortest.
func (a argv) last(f flag) occurrence {
	var found occurrence
	for i := a.start; i < len(a.words); i++ {
		name, value, inline := strings.Cut(a.words[i], "=")
		if !f.matches(name) {
			continue
		}
		switch {
		case inline:
			found = occurrence{given: true, value: value, index: i, prefix: name + "="}
		case f.valued && i+1 < len(a.words):
			found = occurrence{given: true, value: a.words[i+1], index: i + 1}
			i++
		default:
			found = occurrence{given: true, index: i}
		}
	}
	return found
}

func (a argv) has(f flag) bool { return a.last(f).given }

// flag is a flag of SGLang.
type flag struct {
	name     string
	aliases  []string
	shortest string
	valued   bool
}

func (f flag) matches(word string) bool {
	return word == f.name || slices.Contains(f.aliases, word) ||
		f.shortest != "" && strings.HasPrefix(word, f.shortest) && strings.HasPrefix(f.name, word)
}
