// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"encoding/json"
	"testing"
)

func TestDrift(t *testing.T) {
	tests := []struct {
		name, want, have, at string
	}{
		{"equal", `{"a":{"b":1}}`, `{"a":{"b":1}}`, ""},
		{"defaulted by the API server", `{"a":{"b":1}}`, `{"a":{"b":1,"c":2},"d":3}`, ""},
		{"changed", `{"a":{"b":1}}`, `{"a":{"b":2}}`, "a.b"},
		{"removed", `{"a":{"b":1}}`, `{"a":{}}`, "a.b"},
		{"of another type", `{"a":{"b":1}}`, `{"a":"b"}`, "a"},
		{"no longer a list", `{"args":["x"]}`, `{"args":{"x":1}}`, "args"},
		{"atomic list: order", `{"args":["x","y"]}`, `{"args":["y","x"]}`, "args"},
		{"atomic list: added", `{"args":["x"]}`, `{"args":["x","y"]}`, "args"},
		{"atomic list: defaulted element", `{"tolerations":[{"key":"k"}]}`,
			`{"tolerations":[{"key":"k","effect":"e"}]}`, ""},
		{"atomic list: changed element", `{"tolerations":[{"key":"k"}]}`, `{"tolerations":[{"key":"l"}]}`, "tolerations"},
		{"keyed list: order", `{"env":[{"name":"a","value":"1"},{"name":"b","value":"2"}]}`,
			`{"env":[{"name":"b","value":"2"},{"name":"a","value":"1"}]}`, ""},
		{"keyed list: somebody else's element", `{"volumes":[{"name":"a"}]}`, `{"volumes":[{"name":"x"},{"name":"a"}]}`, ""},
		{"keyed list: changed element", `{"containers":[{"name":"a","image":"1"}]}`,
			`{"containers":[{"name":"a","image":"2"}]}`, "containers[a].image"},
		{"keyed list: removed element", `{"containers":[{"name":"a"}]}`, `{"containers":[{"name":"b"}]}`, "containers[a]"},
		{"keyed list: keyed by mount path", `{"volumeMounts":[{"mountPath":"/a","name":"v"}]}`,
			`{"volumeMounts":[{"mountPath":"/a","name":"w"}]}`, "volumeMounts[/a].name"},
		{"the first difference in order of names", `{"b":1,"a":1}`, `{"b":2,"a":2}`, "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if found := drift(parse(t, test.want), parse(t, test.have)); found.path != test.at {
				t.Errorf("got %q, want %q", found.path, test.at)
			}
		})
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
