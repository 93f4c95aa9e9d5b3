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

// tests are the tests of this repository, by the name that docs/dev/attacks.md gives them.
type tests struct {
	suites map[string][]string // of C++: the tests of each
	names  map[string]bool     // of Go and Python
	specs  string              // of e2e: the texts
}

var (
	cppTest    = regexp.MustCompile(`\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)`)
	goTest     = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	pythonTest = regexp.MustCompile(`(?m)^\s*(?:async )?def (test_\w+)\(`)
	spec       = regexp.MustCompile(`\b(?:Describe|Context|When|It|Entry|DescribeTable)\("((?:[^"\\]|\\.)*)"`)
)

func findTests(t *testing.T) tests {
	t.Helper()
	all := tests{suites: map[string][]string{}, names: map[string]bool{}}
	for _, folder := range []string{"api", "charts", "config", "dataplane/fuzz", "dataplane/src", "dataplane/python/tests", "e2e", "hack", "internal", "kubectl", "operator"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			name := filepath.Base(path)
			cpp, golang := strings.HasSuffix(name, "_test.cc"), strings.HasSuffix(name, "_test.go")
			if err != nil || entry.IsDir() || !cpp && !golang && !strings.HasSuffix(name, ".py") && !strings.HasSuffix(name, "_fuzz.cc") {
				return err
			}
			content, err := os.ReadFile(path)
			text := string(content)
			switch {
			case strings.HasSuffix(name, "_fuzz.cc"):
				all.names[strings.TrimSuffix(name, "_fuzz.cc")] = true
			case cpp:
				for _, test := range cppTest.FindAllStringSubmatch(text, -1) {
					all.suites[test[1]] = append(all.suites[test[1]], test[2])
				}
			case golang && folder == "e2e":
				for _, one := range spec.FindAllStringSubmatch(text, -1) {
					all.specs += one[1] + "\n"
				}
			case golang:
				for _, test := range goTest.FindAllStringSubmatch(text, -1) {
					all.names[test[1]] = true
				}
			case strings.HasPrefix(name, "test_"):
				for _, test := range pythonTest.FindAllStringSubmatch(text, -1) {
					all.names[test[1]] = true
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// has says whether there is a test of this name. A name without a suite is of the suite named before it in its cell.
func (a tests) has(name, former string) bool {
	if a.names[name] { // of Go and Python, and fuzz targets
		return true
	}
	suite, test, dotted := strings.Cut(name, ".")
	if !dotted {
		suite, test = former, name
	}
	if test == "*" {
		return len(a.suites[suite]) > 0
	}
	return slices.Contains(a.suites[suite], test)
}

// TestSecurityNamesTests checks that the tests exist that the page about attacks names.
func TestSecurityNamesTests(t *testing.T) {
	if checked := checkNamedTests(t, "docs/dev/attacks.md", findTests(t)); checked < 80 {
		t.Errorf("only %d names of tests were found", checked)
	}
}

// checkNamedTests returns how many names in tables of the page it has checked.
func checkNamedTests(t *testing.T, file string, all tests) (checked int) {
	t.Helper()
	code, quoted := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`e2e "([^"]+)"`)
	page := read(t, file)[0]
	for _, table := range page.Tables {
		column := slices.Index(table.Head, "shown by")
		if column < 0 {
			continue
		}
		for i, row := range table.Rows {
			line, suite := table.Line+2+i, ""
			for _, name := range code.FindAllStringSubmatch(row[column], -1) {
				checked++
				if name[1] == "make test-fuzz" { // what it makes is held by TestQuotedCommands
					continue
				}
				if !all.has(name[1], suite) {
					t.Errorf("%s:%d: there is no test %s", file, line, name[1])
				}
				if before, _, dotted := strings.Cut(name[1], "."); dotted {
					suite = before
				}
			}
			for _, text := range quoted.FindAllStringSubmatch(row[column], -1) {
				checked++
				if !strings.Contains(all.specs, text[1]) {
					t.Errorf("%s:%d: e2e has no spec with the text %q", file, line, text[1])
				}
			}
		}
	}
	// Elsewhere on the page, such as in the example of a command.
	text, err := os.ReadFile(page.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("`([A-Z]\\w+\\.(?:\\*|[A-Z]\\w+))`").FindAllStringSubmatch(string(text), -1) {
		if !all.has(name[1], "") {
			t.Errorf("%s: there is no test %s", file, name[1])
		}
	}
	return checked
}
