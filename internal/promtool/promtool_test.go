// SPDX-License-Identifier: Apache-2.0

package promtool

import "testing"

func TestFill(t *testing.T) {
	places := map[string]map[string]string{"@": {"b": "2", "a": "1"}, "node": {"pod": "x"}}
	for name, want := range map[string]string{
		"up":                    "up",
		"up{@}":                 `up{a="1",b="2"}`,
		`up{@,node,rail="a b"}`: `up{a="1",b="2",pod="x",rail="a b"}`,
		`up{pod="node"}`:        `up{pod="node"}`,
	} {
		if got := Fill(name, places); got != want {
			t.Errorf("%s became %s, want %s", name, got, want)
		}
	}
}
