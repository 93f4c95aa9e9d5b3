// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOnlyNamesTests checks that what pages give a lane as ONLY is a test: one of C++, with wildcards, a file of pytest, or
// PACKAGE.TestName.
func TestOnlyNamesTests(t *testing.T) {
	all := findTests(t)
	files, err := Files(root, "README.md", "CONTRIBUTING.md", "docs", "dataplane/python/README.md", "dataplane/fuzz/README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("ONLY='?([^'`\\s)]+)|for a name such as `([^`]+)`")
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			name := match[1] + match[2]
			if name == "NAME" {
				continue
			}
			checked++
			if !all.chosenBy(name) {
				t.Errorf("%s: ONLY=%s chooses no test", strings.TrimPrefix(file, root+"/"), name)
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d names were found", checked)
	}
}

// chosenBy says whether ONLY=name runs a test.
func (a tests) chosenBy(name string) bool {
	if script, _, _ := strings.Cut(name, "::"); strings.HasSuffix(script, ".py") {
		_, err := os.Stat(filepath.Join(root, "dataplane", script))
		return err == nil
	}
	if at := strings.LastIndex(name, ".Test"); at >= 0 && a.names[name[at+1:]] {
		return true
	}
	parts := strings.Split(name, "/") // INSTANCE/SUITE.TEST/PARAMETER
	at := slices.IndexFunc(parts, func(part string) bool { return strings.Contains(part, ".") })
	if at < 0 {
		return false
	}
	for suite, names := range a.suites {
		for _, test := range names {
			if fits, err := path.Match(parts[at], suite+"."+test); err == nil && fits {
				return true
			}
		}
	}
	return false
}
