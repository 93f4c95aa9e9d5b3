// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Literal is a string in a program. Strings that the source joins are one; a value between them is an x.
type Literal struct {
	// Line is where it begins, from 1.
	Line int
	Text string
}

// textPattern matches two words in a row. Strings without them are names, keys and formats.
var textPattern = regexp.MustCompile(`[\pL\pN}][,.:;)]? +[("{%]?[\pL\pN]`)

// IsText is true for what people may read.
func (l Literal) IsText() bool { return textPattern.MatchString(l.Text) }

// GoLiterals lists the strings of a Go file, without imports and the tags of fields.
func GoLiterals(source string) ([]Literal, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var literals []Literal
	var see func(node ast.Node) bool
	// join returns the text of a string, or of a sum, and x for any other value, in which it looks for more strings.
	var join func(node ast.Expr) string
	join = func(node ast.Expr) string {
		switch node := node.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); err == nil && node.Kind == token.STRING {
				return text
			}
		case *ast.BinaryExpr:
			return join(node.X) + join(node.Y)
		default:
			ast.Inspect(node, see)
		}
		return "x"
	}
	see = func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			node.Tag = nil
		case *ast.BasicLit:
			literals = append(literals, Literal{Line: files.Position(node.Pos()).Line, Text: join(node)})
		case *ast.BinaryExpr:
			if node.Op == token.ADD {
				literals = append(literals, Literal{Line: files.Position(node.Pos()).Line, Text: join(node)})
				return false
			}
		}
		return true
	}
	ast.Inspect(file, see)
	return literals, nil
}

// Dialect is what a language has for strings and comments.
type Dialect struct {
	comment string // begins one that ends with its line
	block   bool   // has comments in /* */
	quotes  string // each begins a string
	raw     bool   // has R"tag(...)tag"
	python  bool   // has prefixes of strings, and strings in three quotes, which describe code
	values  *regexp.Regexp
}

// The languages of the data plane.
var (
	fieldPattern = regexp.MustCompile(`\{[^{}]*\}`)

	Cpp        = Dialect{comment: "//", block: true, quotes: `"`, raw: true, values: fieldPattern}
	Python     = Dialect{comment: "#", quotes: `"'`, python: true, values: fieldPattern}
	JavaScript = Dialect{comment: "//", block: true, quotes: "\"'`", values: regexp.MustCompile(`\$\{.*\}`)}
)

// Literals lists the strings of a source. It reads no grammar: what it takes for a string is one in the sources of this repository.
func (d Dialect) Literals(source string) []Literal {
	var literals []Literal
	joins := false // nothing but blanks and comments are between here and the last string
	for at := 0; at < len(source); {
		rest := source[at:]
		begin := at
		text, kind := "", byte(0)
		switch {
		case strings.HasPrefix(rest, d.comment), d.raw && strings.HasPrefix(rest, "#include"):
			at += len(rest)
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				at = begin + end
			}
			continue
		case d.block && strings.HasPrefix(rest, "/*"):
			at += past(rest, "*/", 2)
			continue
		case strings.TrimLeft(rest[:1], " \t\r\n\\") == "":
			at++
			continue
		case d.python && prefixPattern.MatchString(rest) && (at == 0 || !isWord(source[at-1])):
			at += len(prefixPattern.FindString(rest)) - 1
			continue
		case d.python && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, `'''`)):
			at += past(rest, rest[:3], 3)
		case d.raw && rawPattern.MatchString(rest):
			tag := rawPattern.FindStringSubmatch(rest)[1]
			length := past(rest, ")"+tag+`"`, 0)
			text, kind = strings.TrimSuffix(rest[len(tag)+3:length], ")"+tag+`"`), '"'
			at += length
		case strings.IndexByte(d.quotes, rest[0]) >= 0:
			length := quoted(rest)
			text, kind = unescape(rest[1:max(1, length-1)]), rest[0]
			at += length
		case rest[0] == '\'' && (at == 0 || !isWord(source[at-1])): // a character of C++; after a digit it divides a number
			at += quoted(rest)
		default:
			at++
		}
		switch {
		case kind == 0:
			joins = false
		case joins && kind != '`':
			literals[len(literals)-1].Text += d.values.ReplaceAllString(text, "x")
		default:
			literals = append(literals, Literal{Line: 1 + strings.Count(source[:begin], "\n"), Text: d.values.ReplaceAllString(text, "x")})
			joins = true
		}
	}
	return literals
}

var (
	prefixPattern = regexp.MustCompile(`^[bfruBFRU]{1,2}["']`)
	rawPattern    = regexp.MustCompile(`^R"([^()\s"]*)\(`)
	escapePattern = regexp.MustCompile(`\\(.)`)
)

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// past is the length of a text to the end of the mark, which is searched for from an offset on.
func past(text, mark string, from int) int {
	if end := strings.Index(text[min(from, len(text)):], mark); end >= 0 {
		return from + end + len(mark)
	}
	return len(text)
}

// quoted is the length of the string at the beginning of a text, with its quotes.
func quoted(text string) int {
	for at := 1; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case text[0]:
			return at + 1
		}
	}
	return len(text)
}

func unescape(text string) string {
	return escapePattern.ReplaceAllStringFunc(text, func(escape string) string {
		if slices.Contains([]string{"n", "r", "t"}, escape[1:]) {
			return " "
		}
		return escape[1:]
	})
}
