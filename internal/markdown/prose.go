// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"regexp"
	"strings"
)

// Line is one line of a page, without its end.
type Line struct {
	// Number is from 1.
	Number int
	Text   string
}

var (
	itemPattern       = regexp.MustCompile(`^ *(?:[-*+]|\d+[.)]) +`)
	definitionPattern = regexp.MustCompile(`^ {0,3}\[[^\]]+\]: `)
	generatedPattern  = regexp.MustCompile(`(?im)^<!-- written by `)
	sentenceEnd       = regexp.MustCompile(`[.!?][)"*_]*\s`)
	addressPattern    = regexp.MustCompile(`\]\([^()\s]*\)|\]\[[^\]]*\]`)
	tagPattern        = regexp.MustCompile(`<[^>]*>`)
	letterPattern     = regexp.MustCompile(`[\pL\pN]`)
)

// Sentence is one sentence of a page.
type Sentence struct {
	// Line is the first of its paragraph, from 1.
	Line int
	// Words counts code as one word, and no addresses.
	Words int
	// Text has an x in place of each code.
	Text string
}

// Sentences lists the sentences of a page's prose, without headings. An item of a list begins a sentence.
func Sentences(text string) []Sentence {
	var sentences []Sentence
	var paragraph strings.Builder
	first, last := 0, 0
	end := func() {
		plain := codePattern.ReplaceAllString(paragraph.String(), "x")
		plain = tagPattern.ReplaceAllString(addressPattern.ReplaceAllString(plain, "]"), "")
		for _, sentence := range sentenceEnd.Split(plain, -1) {
			words := 0
			for word := range strings.FieldsSeq(sentence) {
				if letterPattern.MatchString(word) {
					words++
				}
			}
			if words > 0 {
				sentences = append(sentences, Sentence{Line: first, Words: words, Text: strings.TrimSpace(sentence)})
			}
		}
		paragraph.Reset()
	}
	for _, line := range Prose(text) {
		mark := itemPattern.FindString(line.Text)
		heading := strings.HasPrefix(strings.TrimLeft(line.Text, " "), "#")
		if mark != "" || heading || line.Number != last+1 {
			end()
			first = line.Number
		}
		last = line.Number
		if heading {
			last = 0 // the next line begins a paragraph
			continue
		}
		paragraph.WriteString(strings.TrimSpace(line.Text[len(mark):]) + " ")
	}
	end()
	return sentences
}

// Prose lists the lines of a page that its author can wrap. These are all lines but those of blocks (fenced or
// indented), tables, link definitions and HTML comments. A page that says in a comment which command has written
// it has no author, and so no such lines.
func Prose(text string) []Line {
	var prose []Line
	eachLine(text, func(line Line, walk proseWalk) {
		if walk.last == proseLine {
			prose = append(prose, line)
		}
	})
	return prose
}

// eachLine calls see for each line, with what it is, unless a command has written the page.
func eachLine(text string, see func(line Line, walk proseWalk)) {
	if generatedPattern.MatchString(text) {
		return
	}
	var walk proseWalk
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, "\r")
		walk.last = walk.kindOf(line)
		see(Line{Number: i + 1, Text: line}, walk)
	}
}

type lineKind int

const (
	blankLine lineKind = iota
	proseLine
	indentedLine // of an indented block, with the blank lines in it
	otherLine
)

// proseWalk is what the lines so far mean for the next one.
type proseWalk struct {
	last    lineKind
	fence   string // of the block that is open, or ""
	comment bool
	item    int // the column at which the text of the list's item begins; 0 outside lists
}

func (w *proseWalk) kindOf(line string) lineKind {
	bare := strings.TrimLeft(line, " ")
	indent := len(line) - len(bare)
	afterText := w.last == proseLine || w.last == otherLine
	switch {
	case w.inFence(bare), w.inComment(bare):
		return otherLine
	case bare == "" && w.last == indentedLine:
		return indentedLine
	case bare == "":
		return blankLine
	case !afterText && indent >= w.item+4:
		return indentedLine
	}
	if mark := itemPattern.FindString(line); mark != "" {
		w.item = len(mark)
	} else if !afterText && indent < w.item {
		w.item = indent
	}
	if strings.HasPrefix(bare, "|") || definitionPattern.MatchString(line) {
		return otherLine
	}
	return proseLine
}

func (w *proseWalk) inFence(bare string) bool {
	mark := fenceOf(bare)
	switch {
	case w.fence == "":
		w.fence = mark
		return mark != ""
	case mark != "" && strings.HasPrefix(mark, w.fence) && strings.TrimSpace(bare) == mark:
		w.fence = ""
	}
	return true
}

func (w *proseWalk) inComment(bare string) bool {
	begins := strings.HasPrefix(bare, "<!--")
	if !begins && !w.comment {
		return false
	}
	w.comment = !strings.Contains(bare, "-->")
	return true
}
