// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// programs are the folders whose strings users read.
	programs = []string{
		"api", "kubectl", "operator", "dataplane/src", "dataplane/python/bindings", "dataplane/python/peercache", "dataplane/python/peercache_bench",
	}
	// forTests matches files that only tests use.
	forTests = regexp.MustCompile(`_test\.\w+$|_testing\.\w+$|_benchmark\.cc$|simulation|/fake/|/integration/|/testdata/|test/|zz_generated|^operator/scale/`)
	// publicHeaders are those of which users read the comments.
	publicHeaders = []string{"dataplane/src/client/client.h", "dataplane/src/client/async_client.h", "dataplane/src/client/segment.h"}
)

// TestWordsOfPrograms: messages, events, errors, logs and helps have no word of which the reader has to guess the meaning.
func TestWordsOfPrograms(t *testing.T) {
	words := append(wordsIn(t, "words.txt"), wordsIn(t, "words_texts.txt")...)
	checked := 0
	for name, source := range sources(t) {
		for _, literal := range literalsOf(t, name, source) {
			if !literal.IsText() {
				continue
			}
			checked++
			for _, misuse := range MisusesInText(literal.Text, words) {
				t.Errorf("%s:%d: %q in %q: write %s", name, literal.Line, misuse.Text, literal.Text, misuse.Better)
			}
		}
		if slices.Contains(publicHeaders, name) {
			for _, misuse := range MisusesInText(comments(source), words) {
				t.Errorf("%s:%d: %q: write %s", name, misuse.Line, misuse.Text, misuse.Better)
			}
		}
	}
	if checked < 3000 {
		t.Errorf("only %d texts were found", checked)
	}
}

// sources are the files of programs, by name.
func sources(t *testing.T) map[string]string {
	t.Helper()
	result := map[string]string{}
	for _, folder := range programs {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
			if err != nil || entry.IsDir() || forTests.MatchString(name) {
				return err
			}
			text, err := os.ReadFile(path)
			result[name] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return result
}

func literalsOf(t *testing.T, name, source string) []Literal {
	t.Helper()
	switch filepath.Ext(name) {
	case ".go":
		literals, err := GoLiterals(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return literals
	case ".cc", ".h":
		return Cpp.Literals(source)
	case ".py":
		return Python.Literals(source)
	case ".js":
		return JavaScript.Literals(source)
	case ".html":
		var lines []Literal
		for line := range strings.SplitSeq(tagPattern.ReplaceAllString(source, "x"), "\n") {
			lines = append(lines, Literal{Line: len(lines) + 1, Text: line})
		}
		return lines
	}
	return nil
}

// comments are the comments of a C++ header, each on its line.
func comments(source string) string {
	var lines []string
	for line := range strings.SplitSeq(source, "\n") {
		_, comment, _ := strings.Cut(line, "//")
		lines = append(lines, comment)
	}
	return strings.Join(lines, "\n")
}

func TestLiterals(t *testing.T) {
	for name, c := range map[string]struct {
		file, source string
		texts        []string
	}{
		"sums of Go":        {"a.go", "package a\n\nimport \"b c\"\n\nvar d = \"one \" + e + \" two\" + f(\"three four\")\n", []string{"three four", "one x twox"}},
		"tags of Go":        {"a.go", "package a\n\ntype b struct {\n\tC int `json:\"c d\"`\n}\n", nil},
		"raw strings of Go": {"a.go", "package a\n\nvar b = `one\ntwo`\n", []string{"one\ntwo"}},
		"neighbours":        {"a.cc", "f(\"one {} \"  // why\n  \"two\\n\", \"three\");", []string{"one x two ", "three"}},
		"comments":          {"a.cc", "// \"one\"\n/* \"two\" */ f('\"', 1'000, \"three\");", []string{"three"}},
		"raw strings":       {"a.cc", "f(R\"(one \"two\")\", R\"x(three)x\");", []string{`one "two"`, "three"}},
		"includes":          {"a.cc", "#include \"one.h\"\nf(\"two\");", []string{"two"}},
		"Python":            {"a.py", "\"\"\"one\"\"\"\nf(f\"two {x!r}\" ' three')  # 'four'\ng(rb'\\'five')", []string{"two x three", "'five"}},
		"templates":         {"a.js", "f(`one ${x} two`, 'three')", []string{"one x two", "three"}},
	} {
		var texts []string
		for _, literal := range literalsOf(t, c.file, c.source) {
			texts = append(texts, literal.Text)
		}
		if !slices.Equal(texts, c.texts) {
			t.Errorf("%s: found %q, not %q", name, texts, c.texts)
		}
	}
	for text, want := range map[string]bool{"two words": true, "a: b": true, "two %s": true, "one": false, "a_b/c": false, ", ": false, "%s: %s": true} {
		if got := (Literal{Text: text}).IsText(); got != want {
			t.Errorf("%q is text: %t", text, got)
		}
	}
}
