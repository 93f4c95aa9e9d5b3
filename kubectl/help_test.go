// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func testCommand() *cobra.Command {
	p := &plugin{
		IOStreams: genericiooptions.NewTestIOStreamsDiscard(), version: "0.1.0", flags: genericclioptions.NewConfigFlags(false), now: time.Now,
	}
	return p.command()
}

// TestHelp: each command says in the imperative what it does, and has an example that it accepts.
func TestHelp(t *testing.T) {
	root := testCommand()
	imperative := regexp.MustCompile(`^(?:Bring|Check|Find|Label|List|Measure|Open|Pack|Read|Replace|Show|Take) `)
	for _, command := range root.Commands() {
		if !imperative.MatchString(command.Short) || len(command.Short) > 80 {
			t.Errorf("%s is described by %q", command.Name(), command.Short)
		}
		if command.GroupID == "" && command.Name() != "options" {
			t.Errorf("%s is in no group", command.Name())
		}
		if command.Example == "" {
			t.Errorf("%s has no example", command.Name())
		}
		for line := range strings.Lines(command.Example) {
			words := strings.Fields(line)
			if len(words) > 2 && words[len(words)-2] == ">" {
				words = words[:len(words)-2]
			}
			found, args, err := testCommand().Find(words[min(2, len(words)):])
			if err == nil {
				err = found.ParseFlags(args)
			}
			if err == nil && found.Args != nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
			if err != nil || found.Name() != command.Name() || !strings.HasPrefix(line, "  kubectl peercache ") {
				t.Errorf("the example of %s is %q (error %v)", command.Name(), line, err)
			}
		}
	}
}

// TestHelpHidesFlagsOfKubectl: the help of a command shows its own flags and a few others; the command options shows all.
func TestHelpHidesFlagsOfKubectl(t *testing.T) {
	got := runCommand(t, &fakePods{}, nil, "top", "--help")
	for _, flag := range []string{"--namespace", "--context", "--kubeconfig", "--all-namespaces", "--interval", "--watch"} {
		if !strings.Contains(got.stdout, flag) {
			t.Errorf("the help lacks %s", flag)
		}
	}
	const hidden = "--certificate-authority"
	if strings.Contains(got.stdout, hidden) || strings.Count(got.stdout, "\n") > 30 {
		t.Errorf("the help is\n%s", got.stdout)
	}
	if all := runCommand(t, &fakePods{}, nil, "options"); all.status != 0 || !strings.Contains(all.stdout, hidden) || !strings.Contains(all.stdout, "--namespace") {
		t.Errorf("options prints with status %d\n%s", all.status, all.stdout)
	}
	if err := testCommand().ParseFlags([]string{hidden, "ca.crt"}); err != nil {
		t.Errorf("a hidden flag is refused: %v", err)
	}
}

// TestColors: tables of a terminal have colors, other formats and other outputs have none, and words of others do not add any.
func TestColors(t *testing.T) {
	for name, test := range map[string]struct {
		color bool
		out   format
		want  string
	}{
		"terminal": {true, "", "\x1b[31mFAULT\x1b[0m a\\u001b[2J, FAULT\n\x1b[33mwarning\x1b[0m b\nx is \x1b[31mNOT READY\x1b[0m\n"},
		"file":     {false, "", "FAULT a\\u001b[2J, FAULT\nwarning b\nx is NOT READY\n"},
		"JSON":     {true, "json", "\"FAULT a\\u001b[2J, FAULT\\nwarning b\\nx is NOT READY\\n\"\n"},
	} {
		var out bytes.Buffer
		if err := test.out.print(harmless{Writer: &out, color: test.color}, printed("FAULT a\x1b[2J, FAULT\nwarning b\nx is NOT READY\n")); err != nil {
			t.Fatal(err)
		}
		if out.String() != test.want {
			t.Errorf("%s: %q, want %q", name, out.String(), test.want)
		}
	}
}

// TestColorsAreForTerminals: a file, a pipe and NO_COLOR have none.
func TestColorsAreForTerminals(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if showsColor(file) || showsColor(&bytes.Buffer{}) {
		t.Error("a file shows colors")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	for _, test := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("TERM", test.term)
		if got := showsColor(terminal); got != test.want {
			t.Errorf("NO_COLOR=%s TERM=%s: colors %t", test.noColor, test.term, got)
		}
	}
}

// printed is a report of one text.
type printed string

func (p printed) text(w io.Writer) { _, _ = io.WriteString(w, string(p)) }
