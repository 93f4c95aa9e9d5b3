// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// mostCharacters of a line that its author can wrap.
	mostCharacters = 100
	// mostWords of a sentence.
	mostWords = 25
)

// texts are the pages that git has or would add, by path.
func texts(t *testing.T) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	pages := map[string]string{}
	for name := range strings.FieldsSeq(string(names)) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) { // removed, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	return pages
}

// TestLinesAreWrapped: no line of prose is longer than a reader of the source, or of a change, sees at once.
func TestLinesAreWrapped(t *testing.T) {
	pages, checked := texts(t), 0
	for name, text := range pages {
		for _, line := range Prose(text) {
			checked++
			if n := utf8.RuneCountInString(line.Text); n > mostCharacters {
				t.Errorf("%s:%d: %d characters; wrap it at %d, or move a long address into a link definition",
					name, line.Number, n, mostCharacters)
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d lines were found in %d pages", checked, len(pages))
	}
}

// TestSentencesAreShort: no page has a sentence that a reader has to take apart.
func TestSentencesAreShort(t *testing.T) {
	pages, checked := texts(t), 0
	for name, text := range pages {
		sentences := Sentences(text)
		checked += len(sentences)
		for _, s := range sentences {
			if s.Words > mostWords {
				t.Errorf("%s:%d: a sentence of %d words, %d are the most: %s", name, s.Line, s.Words, mostWords, s.Text)
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d sentences were found in %d pages", checked, len(pages))
	}
}

func TestSentences(t *testing.T) {
	for name, c := range map[string]struct {
		page  string
		words []int
	}{
		"two in a paragraph": {"One two.\nThree four five. Six", []int{2, 3, 1}},
		"paragraphs":         {"one\ntwo\n\nthree", []int{2, 1}},
		"headings":           {"# one two\nthree\n## four\n\nfive six", []int{1, 2}},
		"items":              {"- one\n  two\n- three\n\n1. four five", []int{2, 1, 2}},
		"code":               {"one `two three. four` five `six\nseven`", []int{4}},
		"links":              {"one [two three](four.md#five) [six][seven]", []int{4}},
		"tags":               {"<a id=\"one two\"></a>\nthree", []int{1}},
		"marks":              {"one - two (three.) **Four.** five", []int{3, 1, 1}},
		"numbers":            {"takes 0.5 s of v1.2, e.g.here", []int{6}},
		"tables, blocks":     {"| one two |\n\n    three\n\nfour", []int{1}},
	} {
		var words []int
		for _, sentence := range Sentences(c.page) {
			words = append(words, sentence.Words)
		}
		if !slices.Equal(words, c.words) {
			t.Errorf("%s: sentences have %d words, but should have %d", name, words, c.words)
		}
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
