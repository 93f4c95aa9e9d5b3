// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestTerminalsAreNotCommanded(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ünïcode\tand lines\n":    "plain, ünïcode\tand lines\n",
		"\x1b]0;title\x07\x1b[2Jcleared": `\u001b]0;title\u0007\u001b[2Jcleared`,
		"over\rwritten\b\x7f":            `over\u000dwritten\u0008\u007f`,
		"C1 \u009b2J, \u202egnissim":     `C1 \u009b2J, \u202egnissim`,
		"":                               "",
	} {
		var out strings.Builder
		n, err := harmless{Writer: &out}.Write([]byte(text))
		if out.String() != want || n != len(text) || err != nil {
			t.Errorf("%q is shown as %q (%d, %v), want %q", text, out.String(), n, err, want)
		}
	}
}

// TestCommandsWriteToHarmlessTerminals: what the user has pasted is somebody's word, too.
func TestCommandsWriteToHarmlessTerminals(t *testing.T) {
	var out, err strings.Builder
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &err}
	if status := Run(context.Background(), []string{"--no\x1b[2J"}, "1", streams); status != 1 {
		t.Errorf("status %d", status)
	}
	if said := out.String() + err.String(); strings.Contains(said, "\x1b") || !strings.Contains(said, `no\u001b[2J`) {
		t.Errorf("it says %q", said)
	}
}
