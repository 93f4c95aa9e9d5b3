// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"io"
	"os"
	"regexp"

	"golang.org/x/term"
)

// The colors of a terminal, as its escape sequences.
const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// colors are the words that reports print about the state of a cluster, each with its color.
var colors = []struct {
	words *regexp.Regexp
	color string
}{
	{regexp.MustCompile(`(?m)^FAULT\b|\bNOT (?:READY|AVAILABLE)\b`), red},
	{regexp.MustCompile(`(?m)^warning\b`), yellow},
	{regexp.MustCompile(`(?m)^next:`), bold},
}

// showsColor is true for a terminal, unless the user sets NO_COLOR (https://no-color.org).
func showsColor(out io.Writer) bool {
	file, is := out.(*os.File)
	return is && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// painted writes the words of colors in their color. It adds the escape sequences after harmless has made all others visible, and
// after tables have counted their columns.
type painted struct{ harmless }

// inColor returns a writer for a table. Other formats are for programs.
func inColor(w io.Writer) io.Writer {
	if h, is := w.(harmless); is && h.color {
		return painted{h}
	}
	return w
}

// Write implements io.Writer.
func (p painted) Write(text []byte) (int, error) {
	shown := visible(text)
	for _, c := range colors {
		shown = c.words.ReplaceAllString(shown, c.color+"$0"+plain)
	}
	if _, err := io.WriteString(p.Writer, shown); err != nil {
		return 0, fmt.Errorf("writing: %w", err)
	}
	return len(text), nil
}
