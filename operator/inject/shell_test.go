// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
	"github.com/peercache/peercache/operator/inject/engines/vllm"
)

// TestFlagsVariableInShells checks that the unquoted variable expands to exactly the arguments that are appended
// elsewhere.
func TestFlagsVariableInShells(t *testing.T) {
	node := factsOfCluster("serving", embeddedNode, sharedRails, withTLS).Node("numa0").Node
	for name, link := range map[string]engines.Link{
		"socket": {Socket: "/run/peercache/default.sock"}, "embedded": embeddedLink(&corev1.Pod{}, Facts{}, node).Link,
	} {
		t.Run(name, func(t *testing.T) { checkInShells(t, link) })
	}
}

func checkInShells(t *testing.T, link engines.Link) {
	link.HostMemory = defaultHostMemory
	for _, engine := range known {
		if _, isVLLM := engine.(vllm.Engine); !isVLLM || link.Socket != "" {
			checkEngineInShells(t, engine, link)
		}
	}
}

func checkEngineInShells(t *testing.T, engine engines.Engine, link engines.Link) {
	t.Helper()
	// A page size is no part of the variable.
	args := engines.Argv{Words: []string{sglang.PageSize.Name, "64"}}
	change, reason := engine.Connect(args, engines.DeliveryFlags, link)
	if reason != "" {
		t.Fatal(reason)
	}
	variable := engine.About().Variable
	for _, shell := range []string{"sh", "bash"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Fatalf("%v: install %s", err, shell)
		}
		// The directory has a file that an unquoted pattern would match.
		command := exec.CommandContext(t.Context(), path, "-c", `touch '{a' b; exec printf '%s\n' $`+variable)
		command.Dir = t.TempDir()
		command.Env = []string{variable + "=" + engine.AllFlags(link), "PATH=/usr/bin:/bin"}
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", shell, err, output)
		}
		if got := strings.Split(strings.TrimSpace(string(output)), "\n"); !slices.Equal(got, change.Add) {
			t.Errorf("%s: got %q, want %q", shell, got, change.Add)
		}
	}
}
