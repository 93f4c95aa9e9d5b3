// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// wordsIn are the words to avoid of a list beside this file.
func wordsIn(t *testing.T, file string) []Word {
	t.Helper()
	list, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	words, err := ParseWords(string(list))
	if err != nil || len(words) < 10 {
		t.Fatalf("%s has %d words (error %v)", file, len(words), err)
	}
	return words
}

// TestWords: pages, CRD texts, chart texts and manifests have no word of which the reader has to guess the meaning.
func TestWords(t *testing.T) {
	words, found := wordsIn(t, "words.txt"), map[string][]Misuse{}
	for name, text := range texts(t) {
		if name == "README.md" || name == "CONTRIBUTING.md" || strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "charts/") {
			found[name] = Misuses(text, words)
		}
	}
	if len(found) < 60 {
		t.Errorf("only %d pages were found", len(found))
	}
	for name, text := range chartTexts(t) {
		found[name] = MisusesInText(text, words)
	}
	for name, text := range crdTexts(t) {
		found[name] = MisusesInText(text, words)
	}
	for name, text := range manifests(t) {
		found[name] = MisusesInText(text, words)
	}
	for name, misuses := range found {
		for _, misuse := range misuses {
			t.Errorf("%s:%d: %q: write %s", name, misuse.Line, misuse.Text, misuse.Better)
		}
	}
}

// chartTexts are the comments of the chart's values, which its README repeats, and its notes.
func chartTexts(t *testing.T) map[string]string {
	t.Helper()
	result := map[string]string{}
	for _, name := range []string{"charts/peercache/values.yaml", "charts/peercache/templates/NOTES.txt"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.HasSuffix(name, ".yaml") {
				_, comment, _ := strings.Cut(line, "#")
				line = comment
			}
			lines = append(lines, line)
		}
		result[name] = strings.Join(lines, "\n")
	}
	return result
}

// manifests are those of which users read comments, messages or annotations.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	result := map[string]string{}
	for _, pattern := range []string{"config/samples/*.yaml", "config/admission/*.yaml", "config/writers/*.yaml", "config/prometheus/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files (error %v)", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			result[strings.TrimPrefix(file, root+"/")] = string(text)
		}
	}
	return result
}

// crdTexts are the descriptions of the fields and the messages of their rules, one on each line.
func crdTexts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config/crd/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		if lines := descriptions(tree, nil); len(lines) > 0 {
			result[strings.TrimPrefix(file, root+"/")] = strings.Join(lines, "\n")
		}
	}
	if len(result) == 0 {
		t.Error("no CRD was found")
	}
	return result
}

func descriptions(tree any, lines []string) []string {
	switch node := tree.(type) {
	case map[string]any:
		for key, value := range node {
			if text, isText := value.(string); isText && (key == "description" || key == "message") {
				lines = append(lines, strings.ReplaceAll(text, "\n", " "))
			} else {
				lines = descriptions(value, lines)
			}
		}
	case []any:
		for _, value := range node {
			lines = descriptions(value, lines)
		}
	}
	return lines
}

func TestMisuses(t *testing.T) {
	words, err := ParseWords("# comment\nwho has: name it\nlooks? at: check\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		page  string
		lines []int
	}{
		"prose":             {"# Who has it\n\nthe operator looks\nat it", []int{1, 3}},
		"tables":            {"| a |\n|---|\n| who has |", []int{3}},
		"table in a list":   {"1. one\n\n   | a |\n   |---|\n   | who has |", []int{5}},
		"code":              {"one `who has` two\n\n    who has\n\n```\nwho has\n```", nil},
		"quotation":         {`it prints "who has it"`, nil},
		"address":           {"[one](two.md#who-has)", nil},
		"link":              {"[who has](two.md)", []int{1}},
		"path":              {"who/has, config/looks at", nil},
		"parts of words":    {"who hastens, outlooks at", nil},
		"code before":       {"`a\nb` who\nhas", []int{2}},
		"generated":         {"<!-- Written by `make x` from y -->\n\nwho has", nil},
		"two on one line":   {"who has, who has", []int{1, 1}},
		"after another row": {"| who has |\n|---|\n| looks at |", []int{1, 3}},
	} {
		var lines []int
		for _, misuse := range Misuses(c.page, words) {
			lines = append(lines, misuse.Line)
		}
		if !slices.Equal(lines, c.lines) {
			t.Errorf("%s: found in lines %d, but is in %d", name, lines, c.lines)
		}
	}
	for _, list := range []string{"who has", "who has:", "(: x"} {
		if _, err := ParseWords(list); err == nil {
			t.Errorf("%q is no list of words", list)
		}
	}
}
