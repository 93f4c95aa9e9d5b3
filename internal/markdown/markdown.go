// SPDX-License-Identifier: Apache-2.0

// Package markdown reads the pages of this repository for the tests that check them: fenced blocks, headings and links.
//
//	page, err := markdown.Read("../../docs/rails.md")
//	for _, block := range page.Blocks { if block.Language == "yaml" { ... } }
//
// It supports only the Markdown that these pages use.
package markdown

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Page is one file.
type Page struct {
	File   string
	Blocks []Block
	Links  []Link
	// Anchors are the names of the headings, as they stand behind # in an address.
	Anchors []string
	Tables  []Table
}

// Table is a table with its head. A table without the line of dashes has no rows, and is rendered as text.
type Table struct {
	Line int
	Head []string
	Rows [][]string
}

// Block is a fenced block.
type Block struct {
	Language string
	// Line is the line number of the fence, from 1.
	Line int
	// Text has every line of the block with its line end, without the indentation of the fence.
	Text string
}

// Link is the target of a link, without its title.
type Link struct {
	Target string
	Line   int
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	codePattern    = regexp.MustCompile("`[^`]*`")
	headingPattern = regexp.MustCompile(`^#{1,6} +(.+?)( +#+)?$`)
	htmlAnchor     = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// Read reads one file.
func Read(file string) (Page, error) {
	content, err := os.ReadFile(file) //nolint:gosec // tests name pages of this repository
	if err != nil {
		return Page{}, err
	}
	page := Parse(string(content))
	page.File = file
	return page, nil
}

// Parse parses the text of a page.
func Parse(text string) Page {
	var page Page
	var block *Block
	var rows []string
	fence, indentation := "", ""
	for i, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimRight(line, "\r\n")
		mark := fenceOf(bare)
		if isRow := block == nil && strings.HasPrefix(bare, "|"); isRow {
			rows = append(rows, bare)
		} else if len(rows) > 0 {
			page.Tables = append(page.Tables, table(rows, i+1-len(rows)))
			rows = nil
		}
		switch {
		case block != nil && mark != "" && strings.HasPrefix(mark, fence) && strings.TrimSpace(bare) == mark:
			page.Blocks = append(page.Blocks, *block)
			block = nil
		case block != nil:
			block.Text += strings.TrimPrefix(line, indentation)
		case mark != "":
			fence = mark
			indentation, _, _ = strings.Cut(bare, mark)
			block = &Block{Language: strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(bare), mark)), Line: i + 1}
		default:
			page.readLine(bare, i+1)
		}
	}
	return page
}

func (p *Page) readLine(line string, number int) {
	if heading := headingPattern.FindStringSubmatch(line); heading != nil {
		p.addAnchor(Anchor(heading[1]))
	}
	for _, anchor := range htmlAnchor.FindAllStringSubmatch(line, -1) {
		p.Anchors = append(p.Anchors, anchor[1])
	}
	// The text of a link may be code. Code around a whole link makes it no link.
	bare := codePattern.ReplaceAllString(line, "``")
	for _, link := range linkPattern.FindAllStringSubmatch(bare, -1) {
		p.Links = append(p.Links, Link{Target: link[1], Line: number})
	}
}

func table(rows []string, line int) Table {
	t := Table{Line: line, Head: cells(rows[0])}
	if len(rows) < 2 || strings.Trim(rows[1], "|-: ") != "" {
		return t
	}
	for _, row := range rows[2:] {
		t.Rows = append(t.Rows, cells(row))
	}
	return t
}

// cells splits a row. A bar after a backslash belongs to a cell.
func cells(row string) []string {
	const bar = "\x00"
	row = strings.ReplaceAll(row, `\|`, bar)
	list := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
	for i := range list {
		list[i] = strings.TrimSpace(strings.ReplaceAll(list[i], bar, "|"))
	}
	return list
}

// addAnchor numbers headings of the same name as GitHub does.
func (p *Page) addAnchor(name string) {
	unique := name
	for n := 1; slices.Contains(p.Anchors, unique); n++ {
		unique = name + "-" + string(rune('0'+n))
	}
	p.Anchors = append(p.Anchors, unique)
}

// fenceOf returns the run of ` or ~ that begins or ends a block, or "".
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, mark := range []string{"`", "~"} {
		run := line[:len(line)-len(strings.TrimLeft(line, mark))]
		if len(run) >= 3 && !strings.Contains(line[len(run):], "`") {
			return run
		}
	}
	return ""
}

// Anchor returns the anchor of a heading as GitHub does: lower case, letters, digits, '-' and '_', blanks as '-'.
func Anchor(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	var anchor strings.Builder
	for _, r := range strings.ToLower(strings.ReplaceAll(heading, "`", "")) {
		switch {
		case r == ' ':
			anchor.WriteRune('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			anchor.WriteRune(r)
		}
	}
	return anchor.String()
}

// Files returns the pages below some folders of the repository, and single files, sorted.
func Files(root string, names ...string) ([]string, error) {
	var files []string
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return files, nil
}
