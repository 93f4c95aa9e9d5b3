// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"regexp"
	"strings"
	"testing"
)

// TestSecretsAreWrittenForOneUser: a command that writes a secret into a file lets no other user read it.
func TestSecretsAreWrittenForOneUser(t *testing.T) {
	written := regexp.MustCompile(`openssl rand[^|]*>`)
	found := 0
	for name, text := range texts(t) {
		for line := range strings.Lines(text) {
			if !written.MatchString(line) {
				continue
			}
			found++
			if !strings.Contains(line, "(umask 077 && ") {
				t.Errorf("%s: other users may read what this writes; write (umask 077 && ...): %s", name, strings.TrimSpace(line))
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d commands were found", found)
	}
}
