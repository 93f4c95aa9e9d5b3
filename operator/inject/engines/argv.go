// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Flag is a flag of an engine. Shortest is the shortest accepted abbreviation, if any; Valued is true for a flag with a
// value.
type Flag struct {
	Name     string
	Aliases  []string
	Shortest string
	Valued   bool
}

// Matches is true for a spelling of the flag's name.
func (f Flag) Matches(word string) bool {
	return word == f.Name || slices.Contains(f.Aliases, word) ||
		f.Shortest != "" && strings.HasPrefix(word, f.Shortest) && strings.HasPrefix(f.Name, word)
}

// ConfigFile is the file of flags that each engine reads. Flags of the command line override it.
var ConfigFile = Flag{Name: "--config", Valued: true}

// Shell matches a word with a shell, in any directory.
var Shell = regexp.MustCompile(`(^|/)(sh|bash|dash|ash|ksh|zsh)$`)

// Argv is the command and args of a container as one list. Start is the index at which flags begin; with 0, every word may be
// a flag.
type Argv struct {
	Words []string
	Start int
}

// ContainerArgv joins a container's command and args.
func ContainerArgv(c *corev1.Container) Argv {
	return Argv{Words: slices.Concat(c.Command, c.Args)}
}

// Occurrence is one use of a flag.
type Occurrence struct {
	Given  bool
	Value  string // "" for a flag without a value
	Index  int    // index of the word with the value
	Prefix string // text before the value in that word: "--flag=" or ""
}

// Last returns the last use of a flag, which is the one that the engine uses. It accepts every spelling in Aliases. Where Shortest
// is set, it also accepts the abbreviations down to Shortest, as the engines' parsers do.
func (a Argv) Last(f Flag) Occurrence {
	var found Occurrence
	for i := a.Start; i < len(a.Words); i++ {
		name, value, inline := strings.Cut(a.Words[i], "=")
		if !f.Matches(name) {
			continue
		}
		switch {
		case inline:
			found = Occurrence{Given: true, Value: value, Index: i, Prefix: name + "="}
		case f.Valued && i+1 < len(a.Words):
			found = Occurrence{Given: true, Value: a.Words[i+1], Index: i + 1}
			i++
		default:
			found = Occurrence{Given: true, Index: i}
		}
	}
	return found
}

// Has is true where the flag is given.
func (a Argv) Has(f Flag) bool { return a.Last(f).Given }
