// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostCharacters of a line that its author can wrap.
const mostCharacters = 100

// TestLinesAreWrapped: no line of prose is longer than a reader of the source, or of a change, sees at once.
func TestLinesAreWrapped(t *testing.T) {
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	for _, folder := range []string{"docs", "docs/install", "docs/runbooks"} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no pages (error %v)", folder, err)
		}
		files = append(files, found...)
	}
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range Prose(string(text)) {
			checked++
			if n := utf8.RuneCountInString(line.Text); n > mostCharacters {
				t.Errorf("%s:%d: %d characters; wrap it at %d, or move a long address into a link definition",
					strings.TrimPrefix(file, root+"/"), line.Number, n, mostCharacters)
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d lines were found in %d pages", checked, len(files))
	}
}

func TestProse(t *testing.T) {
	for name, c := range map[string]struct {
		page  string
		prose []int
	}{
		"paragraphs":      {"# title\n\none\n    still one\n\ntwo", []int{1, 3, 4, 6}},
		"fenced block":    {"one\n```yaml\na\n\nb\n```\ntwo\n~~~ text\n```\n~~~\nthree", []int{1, 7, 11}},
		"indented block":  {"one\n\n    a\n\n    b\n\ntwo", []int{1, 7}},
		"list":            {"- one\n  two\n\n    three\n\n      a\n\nfour\n\n    b", []int{1, 2, 4, 8}},
		"numbered list":   {"1. one\n\n       a\n\n   two\n2. three\n\n    four", []int{1, 5, 6, 8}},
		"block in a list": {"1. one\n   ```sh\n   a\n   ```\n2. two", []int{1, 5}},
		"table":           {"| a | b |\n|---|---|\n| c | d |\none", []int{4}},
		"definition":      {"one [a]\n\n[a]: https://a.b", []int{1}},
		"comments":        {"<!-- a\n\nb -->\none\n<!-- c -->\ntwo", []int{4, 6}},
		"generated":       {"# one\n\n<!-- Written by `make x` from y -->\n\ntwo", nil},
	} {
		var prose []int
		for _, line := range Prose(c.page) {
			prose = append(prose, line.Number)
		}
		if !slices.Equal(prose, c.prose) {
			t.Errorf("%s: prose is found in lines %d, but is in %d", name, prose, c.prose)
		}
	}
}
