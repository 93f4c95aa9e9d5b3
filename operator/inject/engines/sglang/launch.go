// SPDX-License-Identifier: Apache-2.0

package sglang

import "regexp"

// LaunchModule is SGLang's module. It follows -m, or is one word with it.
const LaunchModule = "sglang.launch_server"

var (
	// LaunchText matches a start of SGLang inside a longer text, such as the script of `sh -c`.
	LaunchText = regexp.MustCompile(`\bsglang(\.launch_server\b|/launch_server\.py\b|\s+serve\b)`)
	// LaunchScript matches a word with SGLang's script, in any directory.
	LaunchScript = regexp.MustCompile(`(^|/)sglang/launch_server\.py$`)
	// LaunchProgram matches a word with SGLang's program, in any directory.
	LaunchProgram = regexp.MustCompile(`(^|/)sglang$`)
)

// LaunchWord returns the index of the word before the flags of SGLang, or -1 where the words do not start SGLang
// directly.
func LaunchWord(words []string) int {
	for i, word := range words {
		switch {
		case word == LaunchModule && i > 0 && words[i-1] == "-m", word == "-m"+LaunchModule, LaunchScript.MatchString(word):
			return i
		case LaunchProgram.MatchString(word) && i+1 < len(words) && words[i+1] == "serve":
			return i + 1
		}
	}
	return -1
}
