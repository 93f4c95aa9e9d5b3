// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// source is the text of all files below some folders whose names have this ending.
func source(t *testing.T, ending string, folders ...string) string {
	t.Helper()
	var text strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ending) || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			text.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// quotes returns the first group of each match of a pattern in the README and the pages below docs, with its page.
func quotes(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := Files(root, "README.md", "docs")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(content), -1) {
			found[match[1]] = strings.TrimPrefix(file, root+"/")
		}
	}
	return found
}

// TestQuotedReasons checks that the operator has the reasons that tables name.
func TestQuotedReasons(t *testing.T) {
	operator := source(t, ".go", "operator")
	checked := 0
	for _, page := range read(t, "docs") {
		for _, table := range page.Tables {
			column := slices.Index(table.Head, "reason")
			if column < 0 || !slices.Contains(table.Head, "condition") {
				continue
			}
			for i, row := range table.Rows {
				for _, reason := range regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(row[column], -1) {
					checked++
					if !strings.Contains(operator, `"`+reason[1]+`"`) && !strings.Contains(operator, "Reason"+reason[1]) {
						t.Errorf("%s:%d: the operator has no reason %s", strings.TrimPrefix(page.File, root+"/"), table.Line+2+i, reason[1])
					}
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d reasons were found", checked)
	}
}

// TestQuotedCommands checks that the plug-in has the commands, and make the targets, that pages name.
func TestQuotedCommands(t *testing.T) {
	plugin := source(t, ".go", "kubectl")
	for command, page := range quotes(t, `kubectl peercache ([a-z][-a-z]+)`) {
		if !regexp.MustCompile(`Use: +"` + command + `[ "]`).MatchString(plugin) {
			t.Errorf("%s: the plug-in has no command %s", page, command)
		}
	}
	makefiles := source(t, ".mk", ".")
	top, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	makefiles += string(top)
	for target, page := range quotes(t, "(?:`|    |\n)make ([a-z][-a-z0-9]+)") {
		if !regexp.MustCompile(`(?m)^` + target + `:|^\.PHONY:.* ` + target + `\b`).MatchString(makefiles) {
			t.Errorf("%s: there is no target %s", page, target)
		}
	}
}

// TestQuotedMetrics checks that nodes, the operator or a recording rule have the metrics that pages name.
func TestQuotedMetrics(t *testing.T) {
	known := source(t, ".cc", "dataplane/src") + source(t, ".go", "operator") + source(t, ".yaml", "config/prometheus")
	for metric, page := range quotes(t, `\b(peercache_(?:operator_)?[a-z_]+[a-z])\b`) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, "")
		if strings.HasPrefix(metric, "peercache_io_") || metric == "peercache_bench" { // labels, and a Python package
			continue
		}
		if !strings.Contains(known, metric) && !strings.Contains(known, base) {
			t.Errorf("%s: there is no metric %s", page, metric)
		}
	}
}

// TestQuotedFigures: speeds that the README, the comparison and the figures name are of a table in docs/dev/performance.md,
// which names their command.
func TestQuotedFigures(t *testing.T) {
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	measured := read("docs/dev/performance.md")
	for _, page := range []string{"README.md", "docs/comparison.md", "docs/figures.md"} {
		figures := regexp.MustCompile(`[0-9][0-9.,]* (?:GB/s|s/GB|keys/s)`).FindAllString(read(page), -1)
		for _, figure := range figures {
			if !strings.Contains(measured, "| "+figure+" |") {
				t.Errorf("%s: %s is in no table of docs/dev/performance.md", page, figure)
			}
		}
		if len(figures) == 0 {
			t.Errorf("no figures were found in %s", page)
		}
	}
}
