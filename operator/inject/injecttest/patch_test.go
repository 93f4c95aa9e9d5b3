// SPDX-License-Identifier: Apache-2.0

package injecttest

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func decode(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestPatch checks that a patch says only what changes, and that it makes the value after from the value before.
func TestPatch(t *testing.T) {
	known := parts{
		"$flags": []any{"-x", "-y"},
		"$node": decode(t, `{name: node, env: [{name: A, value: "1"}, {name: B, value: "2"}, {name: C, value: "3"}, {name: D, value: "4"}],
			ports: [{name: one, containerPort: 31998, protocol: TCP}]}`),
	}
	for name, test := range map[string]struct{ before, after, patch string }{
		"nothing":            {`{a: 1}`, `{a: 1}`, `{}`},
		"fields":             {`{a: 1, b: 2, c: {d: 3, e: 4}}`, `{b: 5, c: {d: 3, f: {}}}`, `{a: null, b: 5, c: {e: null, f: {}}}`},
		"other type":         {`{a: {b: 1}, c: 2}`, `{a: 1, c: {d: 2}}`, `{a: 1, c: {d: 2}}`},
		"words":              {`[a, b, c, b]`, `[x, a, c, b, y, z]`, `{drop 1: null, insert 0: [x], insert 4: [y, z]}`},
		"the first of many":  {`[a, b, c, d, e]`, `[c, e]`, `{drop 0: null, drop 1: null, drop 3: null}`},
		"named elements":     {`[{name: a, x: 1}, {name: b}]`, `[{name: b, x: 1}]`, `{drop 0: null, at b: {x: 1}}`},
		"of one name":        {`[{name: a, x: 1}, {name: a}]`, `[{name: a, x: 1}, {name: a, x: 2}]`, `{at 1: {x: 2}}`},
		"a number as a name": {`[{name: a}, {name: "0"}]`, `[{name: a}, {name: "0", x: 2}]`, `{at 1: {x: 2}}`},
		"a part":             {`[a]`, `[a, -x, -y]`, `{insert 1: $flags}`},
		"a changed part": {
			`{}`, `{c: [{name: node, env: [{name: A, value: "1"}, {name: B, value: "5"}, {name: C, value: "3"}, {name: D, value: "4"}],
				ports: [{name: one, containerPort: 31998, protocol: TCP}]}]}`,
			`{c: [{as: $node, but: {env: {at B: {value: "5"}}}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			patch := known.diff(decode(t, test.before), decode(t, test.after))
			if want := decode(t, test.patch); encoded(patch) != encoded(want) {
				t.Errorf("the patch is %s, want %s", encoded(patch), encoded(want))
			}
			got, err := known.apply(decode(t, test.before), decode(t, test.patch))
			if err != nil || !reflect.DeepEqual(got, decode(t, test.after)) {
				t.Errorf("patched: %s (error %v), want %s", encoded(got), err, test.after)
			}
		})
	}
}

func TestPatchThatDoesNotFit(t *testing.T) {
	for patch, want := range map[string]string{
		`{b: null}`:                    "no b to remove",
		`{a: {at 2: {}}}`:              "no element 2",
		`{a: {at x: {}}}`:              "no element x",
		`{a: {drop 2: null}}`:          "no element 2",
		`{a: {insert 3: [1]}}`:         "no element 3",
		`{a: {insert 1: 1}}`:           "no list",
		`{a: {insert x: [1]}}`:         "insert x",
		`{a: {"1": 1}}`:                "drop N, insert N, at NAME",
		`{c: {as: $unknown, but: {}}}`: "no part $unknown",
		`{c: [$unknown]}`:              "no part $unknown",
	} {
		if got, err := (parts{}).apply(decode(t, `{a: [1, 2]}`), decode(t, patch)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s makes %s (error %v), want an error with %q", patch, encoded(got), err, want)
		}
	}
}

// TestParts checks that each part saves something, so that the list of parts stays short.
func TestParts(t *testing.T) {
	uses := map[string]int{}
	for _, file := range CaseFiles(t, "../testdata") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(text)) {
			uses[word]++
		}
	}
	for name := range partOf {
		if uses[name] < 2 {
			t.Errorf("%d patches name the part %s", uses[name], name)
		}
	}
}
