// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"fmt"
	"regexp"
	"strings"
)

// Word is a word to avoid, and what to write for it.
type Word struct {
	Pattern *regexp.Regexp
	Better  string
}

// Misuse is one place that has a word to avoid.
type Misuse struct {
	// Line is from 1.
	Line   int
	Text   string
	Better string
}

// quotedPattern matches what a program prints, which a page repeats as it is.
var quotedPattern = regexp.MustCompile(`"[^"]{1,200}"`)

// pathPattern matches names of files and folders, and parts of addresses.
var pathPattern = regexp.MustCompile(`[\w.-]+(?:/[\w.-]+)+`)

// ParseWords reads a list of words: on each line a pattern, a colon and the better words. Lines that begin with # are comments.
func ParseWords(text string) ([]Word, error) {
	var words []Word
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, better, found := strings.Cut(line, ": ")
		if !found || strings.TrimSpace(better) == "" {
			return nil, fmt.Errorf("line %d: %q has no better word: write PATTERN: WORDS", i+1, line)
		}
		compiled, err := regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", `\s+`) + `)(?:\b|$)`)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		words = append(words, Word{Pattern: compiled, Better: better})
	}
	return words, nil
}

// Misuses lists the words to avoid in the prose, headings and tables of a page.
func Misuses(text string, words []Word) []Misuse {
	var misuses []Misuse
	var paragraph []string
	first, last := 0, -1
	end := func() {
		misuses = append(misuses, misusesIn(strings.Join(paragraph, "\n"), first, words)...)
		paragraph = nil
	}
	for _, line := range readLines(text) {
		if line.Number != last+1 || strings.HasPrefix(line.Text, "|") {
			end()
			first = line.Number
		}
		paragraph = append(paragraph, line.Text)
		last = line.Number
	}
	end()
	return misuses
}

// MisusesInText lists the words to avoid in text that is no page, such as the description of a field.
func MisusesInText(text string, words []Word) []Misuse { return misusesIn(text, 1, words) }

func misusesIn(text string, first int, words []Word) []Misuse {
	blank := func(code string) string { return "x" + strings.Repeat("\n", strings.Count(code, "\n")) }
	text = codePattern.ReplaceAllStringFunc(text, blank)
	text = quotedPattern.ReplaceAllStringFunc(text, blank)
	text = addressPattern.ReplaceAllString(text, "]")
	text = pathPattern.ReplaceAllString(text, "x")
	var misuses []Misuse
	for _, word := range words {
		for _, at := range word.Pattern.FindAllStringIndex(text, -1) {
			misuses = append(misuses, Misuse{
				Line: first + strings.Count(text[:at[0]], "\n"), Text: spaces.ReplaceAllString(text[at[0]:at[1]], " "), Better: word.Better,
			})
		}
	}
	return misuses
}

// readLines lists the lines of prose and of tables.
func readLines(text string) []Line {
	var lines []Line
	eachLine(text, func(line Line, walk proseWalk) {
		line.Text = strings.TrimLeft(line.Text, " ")
		row := walk.fence == "" && !walk.comment && strings.HasPrefix(line.Text, "|")
		if walk.last == proseLine || walk.last == otherLine && row {
			lines = append(lines, line)
		}
	})
	return lines
}
