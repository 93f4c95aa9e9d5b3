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
	// columnGap separates two columns.
	columnGap = "  "
	// maxWidth is the width at which the last column is wrapped, so that sentences fit a terminal.
	maxWidth = 120
	// minLastColumn is the least width of the last column, however wide the others are.
	minLastColumn = 40
)

// table has columns as wide as their widest cell. The last column may hold sentences, which are wrapped. An empty last
// column is left out.
type table struct {
	head []string
	// right marks the columns of numbers.
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

// add appends a row. An empty cell is shown as a dash, except in the last column.
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
		before += widths[column] + len(columnGap)
	}
	lastWidth := utf8.RuneCountInString(t.head[last])
	room := max(maxWidth-before, minLastColumn)
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
				text.WriteString(t.pad(column, cell, width) + columnGap)
			}
			text.WriteString(t.pad(last, line, lastWidth))
			_, _ = fmt.Fprintln(w, strings.TrimRight(text.String(), " "))
		}
	}
}

// dropEmpty removes the last column where it is empty in all rows.
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

// wrap breaks a text at blanks into lines of at most width runes. A longer word gets a line of its own.
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
