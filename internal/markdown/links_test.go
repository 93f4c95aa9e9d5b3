// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// pages are all pages of the repository.
var pages = []string{
	"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "SUPPORT.md",
	"docs", "charts", "hack", "e2e", "dataplane/python/README.md", "dataplane/fuzz/README.md",
}

// read returns all pages in some files and folders of the repository.
func read(t *testing.T, paths ...string) []Page {
	t.Helper()
	files, err := Files(root, paths...)
	if err != nil {
		t.Fatal(err)
	}
	var all []Page
	for _, file := range files {
		page, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page)
	}
	return all
}

// TestLinks checks that the files and headings to which pages refer exist in this repository.
func TestLinks(t *testing.T) {
	checked, all := 0, read(t, pages...)
	for _, page := range all {
		for _, link := range page.Links {
			if strings.Contains(link.Target, "://") || strings.HasPrefix(link.Target, "mailto:") {
				continue
			}
			checked++
			if fault := follow(page.File, link.Target); fault != "" {
				t.Errorf("%s:%d: %s: %s", strings.TrimPrefix(page.File, root+"/"), link.Line, link.Target, fault)
			}
		}
	}
	if len(all) < 30 || checked < 60 {
		t.Errorf("only %d links of %d pages were found", checked, len(all))
	}
}

// follow returns what is wrong with a link, or "".
func follow(from, target string) string {
	path, anchor, _ := strings.Cut(target, "#")
	to := from
	if path != "" {
		to = filepath.Join(filepath.Dir(from), filepath.FromSlash(path))
	}
	if _, err := os.Stat(to); err != nil {
		return "there is no such file"
	}
	if anchor == "" {
		return ""
	}
	if !strings.HasSuffix(to, ".md") {
		return "only headings of pages have names"
	}
	page, err := Read(to)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(page.Anchors, anchor) {
		return "the page has no such heading"
	}
	return ""
}

// TestEveryPageIsLinked checks that links lead from the README to every page of docs/.
func TestEveryPageIsLinked(t *testing.T) {
	start := filepath.Join(root, "README.md")
	reached, queue := map[string]bool{start: true}, []string{start}
	for len(queue) > 0 {
		page, err := Read(queue[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range page.Links {
			path, _, _ := strings.Cut(link.Target, "#")
			to := filepath.Join(filepath.Dir(queue[0]), filepath.FromSlash(path))
			if strings.HasSuffix(to, ".md") && !reached[to] && follow(queue[0], link.Target) == "" {
				reached[to] = true
				queue = append(queue, to)
			}
		}
		queue = queue[1:]
	}
	files, err := Files(root, "docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// Alerts link to their runbooks by address.
		if !reached[file] && filepath.Base(filepath.Dir(file)) != "runbooks" {
			t.Errorf("%s is linked from no page that the README leads to", strings.TrimPrefix(file, root+"/"))
		}
	}
}

// TestTables checks that every table has a head, and the same number of cells in each row. Otherwise it is not rendered as a
// table.
func TestTables(t *testing.T) {
	for _, page := range read(t, pages...) {
		for _, table := range page.Tables {
			at := strings.TrimPrefix(page.File, root+"/")
			if len(table.Rows) == 0 {
				t.Errorf("%s:%d: rows without a head: an empty line tore the table, or the line of dashes is missing", at, table.Line)
			}
			for i, row := range table.Rows {
				if len(row) != len(table.Head) {
					t.Errorf("%s:%d: %d cells, the head has %d", at, table.Line+2+i, len(row), len(table.Head))
				}
			}
		}
	}
}
