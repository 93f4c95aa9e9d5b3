// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDifferenceAsText(t *testing.T) {
	tests := []struct {
		name, want, have, text string
	}{
		{"changed", `{"resources":{"requests":{"memory":"4Gi"}}}`, `{"resources":{"requests":{"memory":"2Gi"}}}`,
			"resources.requests.memory 2Gi -> 4Gi"},
		{"a number", `{"port":2}`, `{"port":1}`, "port 1 -> 2"},
		{"added", `{"a":"x"}`, `{}`, "a (none) -> x"},
		{"a list", `{"tolerations":[{"key":"k"}]}`, `{"tolerations":[]}`, "tolerations"},
		{"an added element", `{"volumes":[{"name":"a"}]}`, `{"volumes":[]}`, "volumes[a] is added"},
		{"a line", `{"data":{"x.toml":"a = 1\nb = 2\n"}}`, `{"data":{"x.toml":"a = 1\nb = 3\n"}}`, "data.x.toml b = 3 -> b = 2"},
		{"a new line", `{"data":{"x.toml":"new = 1\na = 1\n"}}`, `{"data":{"x.toml":"a = 1\n"}}`, "data.x.toml (none) -> new = 1"},
		{"other order of lines", `{"x":"a\nb"}`, `{"x":"b\na"}`, "x"},
		{"a value that may be a secret", `{"spec":{"env":[{"name":"TOKEN","value":"hunter2"}]}}`,
			`{"spec":{"env":[{"name":"TOKEN","value":"hunter1"}]}}`, "spec.env[TOKEN].value"},
		{"a new value that may be a secret", `{"spec":{"env":[{"name":"TOKEN","value":"hunter2"}]}}`,
			`{"spec":{"env":[]}}`, "spec.env[TOKEN] is added"},
		{"a digest, where nothing else says what changed",
			`{"spec":{"template":{"metadata":{"annotations":{"peercache.io/config-hash":"2"}}}}}`,
			`{"spec":{"template":{"metadata":{"annotations":{"peercache.io/config-hash":"1"}}}}}`,
			"spec.template.metadata.annotations.peercache.io/config-hash 1 -> 2"},
		{"a digest and what it stands for",
			`{"spec":{"template":{"metadata":{"annotations":{"peercache.io/config-hash":"2"}},"spec":{"x":2}}}}`,
			`{"spec":{"template":{"metadata":{"annotations":{"peercache.io/config-hash":"1"}},"spec":{"x":1}}}}`,
			"spec.template.spec.x 1 -> 2"},
		{"a digest of digests",
			`{"spec":{"template":{"metadata":{"annotations":{"peercache.io/config-hash":"2"},"labels":{"peercache.io/pod-shape":"b"}}}}}`,
			`{"spec":{"template":{"metadata":{"annotations":{"peercache.io/config-hash":"1"},"labels":{"peercache.io/pod-shape":"a"}}}}}`,
			"spec.template.metadata.annotations.peercache.io/config-hash 1 -> 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if text := FindMeaningful(parse(t, test.want), parse(t, test.have)).String(); text != test.text {
				t.Errorf("got %q, want %q", text, test.text)
			}
		})
	}
}

// TestDifferenceIsShort: the text of an event has at most 1024 bytes.
func TestDifferenceIsShort(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	text := Difference{Path: long, Want: "x" + long, Have: long}.String()
	if len(text) > 800 || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestFindRemoved(t *testing.T) {
	tests := []struct{ name, before, after, text string }{
		{"a field", `{"spec":{"a":"1","b":"2"}}`, `{"spec":{"a":"1"}}`, "spec.b 2 -> (none)"},
		{"an element", `{"spec":{"volumes":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"volumes":[{"name":"b"}]}}`, "spec.volumes[a] is removed"},
		{"a list", `{"spec":{"args":["a"]}}`, `{"spec":{}}`, "spec.args is removed"},
		{"nothing but what the API server counts",
			`{"metadata":{"generation":1,"resourceVersion":"1","annotations":{"peercache.io/applied-hash":"x","deprecated.daemonset.template.generation":"1"}},"status":{"a":1}}`,
			`{"metadata":{"generation":2,"resourceVersion":"2","annotations":{"peercache.io/applied-hash":"y","deprecated.daemonset.template.generation":"2"}},"status":{"a":2}}`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if text := FindRemoved(parse(t, test.before), parse(t, test.after)).String(); text != test.text {
				t.Errorf("got %q, want %q", text, test.text)
			}
		})
	}
}
