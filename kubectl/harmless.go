// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// harmless is a terminal that obeys nothing of what it is told to show. Names, messages and answers of nodes are others'
// words: escape sequences in them would rewrite what stands above, or what the user types next. Control characters and those
// that change the direction of text become visible, as \u001b. That is also an escape of JSON.
type harmless struct {
	io.Writer
	// color is true where tables may have colors.
	color bool
}

// Write implements io.Writer.
func (h harmless) Write(text []byte) (int, error) {
	if _, err := io.WriteString(h.Writer, visible(text)); err != nil {
		return 0, fmt.Errorf("writing: %w", err)
	}
	return len(text), nil
}

// visible replaces the characters that a terminal obeys.
func visible(text []byte) string {
	if !strings.ContainsFunc(string(text), commands) {
		return string(text)
	}
	var shown strings.Builder
	for _, r := range string(text) {
		if commands(r) {
			fmt.Fprintf(&shown, `\u%04x`, r)
		} else {
			shown.WriteRune(r)
		}
	}
	return shown.String()
}

// commands tells whether a character is not shown but obeyed.
func commands(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
