// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestFlagsVariableInShells: unquoted, the variable becomes exactly the arguments that are appended elsewhere.
func TestFlagsVariableInShells(t *testing.T) {
	node := factsOfCluster("serving", embeddedNode, sharedRails, tls).Node("numa0").Node
	for name, settings := range map[string][]setting{
		"socket": socketSettings("/run/peercache/default.sock"), "embedded": embedded(&corev1.Pod{}, Facts{}, node).settings,
	} {
		t.Run(name, func(t *testing.T) { checkInShells(t, settings) })
	}
}

func checkInShells(t *testing.T, settings []setting) {
	change, reason := decideFlags(argv{}, settings)
	if reason != "" {
		t.Fatal(reason)
	}
	for _, shell := range []string{"sh", "bash"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Fatalf("%v: install %s", err, shell)
		}
		// In a directory where a pattern would find something.
		command := exec.CommandContext(t.Context(), path, "-c", `touch '{a' b; exec printf '%s\n' $`+envFlags)
		command.Dir = t.TempDir()
		command.Env = []string{envFlags + "=" + allFlags(settings), "PATH=/usr/bin:/bin"}
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", shell, err, output)
		}
		if got := strings.Split(strings.TrimSpace(string(output)), "\n"); !slices.Equal(got, change.add) {
			t.Errorf("%s: got %q, want %q", shell, got, change.add)
		}
	}
}
