// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	page := Parse("# A title: `code` & more\n[one](a.md#b) and [`two`](b.md), but not `[three](c.md)`\n" +
		"```yaml\na: [x](y)\n# no heading\n```\n## Twice\n## Twice ##\n~~~ text\n```\n~~~\n<a id=\"own\"></a>\n" +
		"| a | b |\n|---|---|\n| `x \\| y` | |\n\n| torn | off |\n\n" +
		"1. one\n   ```yaml\n   a:\n     b\n   ```\n")
	want := Page{
		Blocks: []Block{
			{Language: "yaml", Line: 3, Text: "a: [x](y)\n# no heading\n"},
			{Language: "text", Line: 9, Text: "```\n"},
			{Language: "yaml", Line: 20, Text: "a:\n  b\n"},
		},
		Links:   []Link{{"a.md#b", 2}, {"b.md", 2}},
		Anchors: []string{"a-title-code--more", "twice", "twice-1", "own"},
		Tables: []Table{
			{Line: 13, Head: []string{"a", "b"}, Rows: [][]string{{"`x | y`", ""}}},
			{Line: 17, Head: []string{"torn", "off"}},
		},
	}
	if !reflect.DeepEqual(page, want) {
		t.Errorf("got %+v, want %+v", page, want)
	}
}

func TestAnchor(t *testing.T) {
	for heading, want := range map[string]string{
		"spec.rails[]":                  "specrails",
		"9. Virtual machines: SR-IOV":   "9-virtual-machines-sr-iov",
		"What [has run](x.md), really?": "what-has-run-really",
		"snake_case and Ärger":          "snake_case-and-ärger",
	} {
		if got := Anchor(heading); got != want {
			t.Errorf("%q gives %q, want %q", heading, got, want)
		}
	}
}
