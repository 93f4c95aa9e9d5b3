// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"os"
	"regexp"
	"testing"

	"github.com/peercache/peercache/operator/inject/engines/sglang"
)

// TestEmbeddedKeysExistInPackage checks that every key that injection writes is a key of the package, for a node in the
// process. An unknown key fails the start of SGLang.
func TestEmbeddedKeysExistInPackage(t *testing.T) {
	source, err := os.ReadFile("../../dataplane/python/peercache/core/config_keys.py")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?s)"([a-z_0-9]+)": Key\(.*?Scope\.([A-Z]+)(?:, "([a-z-]+)")?`)
	type meaning struct{ scope, option string }
	known := map[string]meaning{}
	for _, match := range line.FindAllStringSubmatch(string(source), -1) {
		known[match[1]] = meaning{match[2], match[3]}
	}
	if len(known) < 30 {
		t.Fatalf("only %d keys were understood", len(known))
	}
	for option, key := range embeddedKeys {
		for _, name := range []string{key.key, key.instead} {
			if name != "" && known[name] != (meaning{"EMBEDDED", option}) {
				t.Errorf("%s stands for %s, and in the package for %+v", name, option, known[name])
			}
		}
	}
	for _, s := range sglang.SocketSettings("x") {
		if scope := known[s.Key].scope; scope != "ANY" && scope != "SOCKET" {
			t.Errorf("%s is a key of scope %q", s.Key, scope)
		}
	}
}

func TestSeconds(t *testing.T) {
	for milliseconds, want := range map[string]string{"500": "0.5", "3000": "3", "1234": "1.234", "50": "0.05"} {
		if got := seconds(milliseconds); got != want {
			t.Errorf("%s ms: %s s, want %s", milliseconds, got, want)
		}
	}
}
