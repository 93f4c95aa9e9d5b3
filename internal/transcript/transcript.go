// SPDX-License-Identifier: Apache-2.0

// Package transcript has tests that are scripts of steps, each with what it prints. dataplane/src/base/transcript_testing.h
// has the same for C++.
//
//	# A comment. It ends what a step prints, and so does an empty line.
//	> command word name=value
//	what it prints, if anything
//
// With REWRITE=1 the script is written with what the steps print now. In CI that fails.
package transcript

import (
	"os"
	"strings"
	"testing"
)

// Step does the step of these words and says what to print: lines, of which none is empty or begins with # or >. Where the
// step makes no sense it returns an error, and nothing is written.
type Step func(words []string) (string, error)

// Run plays the script of the file.
func Run(t testing.TB, file string, step Step) {
	t.Helper()
	script, err := os.ReadFile(file) //nolint:gosec // a test's own file
	if err != nil {
		t.Fatal(err)
	}
	rewrite := os.Getenv("REWRITE") != ""
	if rewrite && os.Getenv("CI") != "" {
		t.Fatal("REWRITE is set in CI, which has to find what differs")
	}
	var written strings.Builder
	lines, steps := strings.SplitAfter(string(script), "\n"), 0
	for i := 0; i < len(lines); {
		line, at := lines[i], i+1
		written.WriteString(line)
		i++
		command, begins := strings.CutPrefix(line, "> ")
		if !begins {
			if !ends(line) {
				t.Fatalf("%s:%d: no step prints this: %s", file, at, line)
			}
			continue
		}
		var expected strings.Builder
		for ; i < len(lines) && !ends(lines[i]); i++ {
			expected.WriteString(lines[i])
		}
		printed, err := step(strings.Fields(command))
		if err != nil {
			t.Fatalf("%s:%d: %s%v", file, at, line, err)
		}
		if printed != "" && !strings.HasSuffix(printed, "\n") {
			printed += "\n"
		}
		if !rewrite && printed != expected.String() {
			t.Errorf("%s:%d: %sprints\n%s, not\n%s. If it is right, run the test with REWRITE=1",
				file, at, line, printed, expected.String())
		}
		written.WriteString(printed)
		steps++
	}
	if steps == 0 {
		t.Fatalf("%s has no step", file)
	}
	if rewrite && written.String() != string(script) {
		if err := os.WriteFile(file, []byte(written.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// ends says whether the line is none that a step prints.
func ends(line string) bool {
	return strings.TrimSuffix(line, "\n") == "" || line[0] == '#' || line[0] == '>'
}
