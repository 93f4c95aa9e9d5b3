// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/sglang"
)

// TestFlagsVariableInShells checks that the unquoted variable expands to exactly the arguments that are appended
// elsewhere.
func TestFlagsVariableInShells(t *testing.T) {
	node := factsOfCluster("serving", embeddedNode, sharedRails, withTLS).Node("numa0").Node
	for name, settings := range map[string][]sglang.Setting{
		"socket": sglang.SocketSettings("/run/peercache/default.sock"), "embedded": embeddedLink(&corev1.Pod{}, Facts{}, node).settings,
	} {
		t.Run(name, func(t *testing.T) { checkInShells(t, settings) })
	}
}

func checkInShells(t *testing.T, settings []sglang.Setting) {
	change, reason := decideFlags(sglang.Argv{}, settings)
	if reason != "" {
		t.Fatal(reason)
	}
	for _, shell := range []string{"sh", "bash"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Fatalf("%v: install %s", err, shell)
		}
		// The directory has a file that an unquoted pattern would match.
		command := exec.CommandContext(t.Context(), path, "-c", `touch '{a' b; exec printf '%s\n' $`+names.EnvFlags)
		command.Dir = t.TempDir()
		command.Env = []string{names.EnvFlags + "=" + sglang.AllFlags(settings), "PATH=/usr/bin:/bin"}
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", shell, err, output)
		}
		if got := strings.Split(strings.TrimSpace(string(output)), "\n"); !slices.Equal(got, change.add) {
			t.Errorf("%s: got %q, want %q", shell, got, change.add)
		}
	}
}
