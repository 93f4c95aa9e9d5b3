// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// gap is between two columns.
	gap = "  "
	// wide is where the last column is broken, so that sentences stay readable on a terminal.
	wide = 120
	// narrowest is what the last column has at least, however wide the others are.
	narrowest = 40
)

// table is written in columns as wide as their widest cell. The last column may hold sentences: they are broken
// at blanks. Without any it is left out.
type table struct {
	head []string
	// right says which columns hold numbers.
	right map[int]bool
	rows  [][]string
}

func newTable(head ...string) *table { return &table{head: head, right: map[int]bool{}} }

func (t *table) numbers(columns ...int) *table {
	for _, column := range columns {
		t.right[column] = true
	}
	return t
}

// add appends a row. An empty cell is shown as a dash, but for the last.
func (t *table) add(cells ...string) {
	for i, cell := range cells[:len(cells)-1] {
		if cell == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) {
	t.dropEmpty()
	last := len(t.head) - 1
	widths := make([]int, last)
	before := 0
	for column := range widths {
		widths[column] = utf8.RuneCountInString(t.head[column])
		for _, row := range t.rows {
			widths[column] = max(widths[column], utf8.RuneCountInString(row[column]))
		}
		before += widths[column] + len(gap)
	}
	lastWidth := utf8.RuneCountInString(t.head[last])
	room := max(wide-before, narrowest)
	for _, row := range t.rows {
		for _, line := range wrap(row[last], room) {
			lastWidth = max(lastWidth, utf8.RuneCountInString(line))
		}
	}
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, line := range wrap(row[last], room) {
			var text strings.Builder
			for column, width := range widths {
				cell := ""
				if i == 0 {
					cell = row[column]
				}
				text.WriteString(t.pad(column, cell, width) + gap)
			}
			text.WriteString(t.pad(last, line, lastWidth))
			_, _ = fmt.Fprintln(w, strings.TrimRight(text.String(), " "))
		}
	}
}

// dropEmpty leaves the last column out where no row has anything in it.
func (t *table) dropEmpty() {
	last := len(t.head) - 1
	if slices.ContainsFunc(t.rows, func(row []string) bool { return row[last] != "" }) {
		return
	}
	t.head = t.head[:last]
	for i := range t.rows {
		t.rows[i] = t.rows[i][:last]
	}
}

func (t *table) pad(column int, cell string, width int) string {
	spaces := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell)))
	if t.right[column] {
		return spaces + cell
	}
	return cell + spaces
}

// wrap breaks a text at blanks into lines of at most width runes. A longer word has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
