// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/peercache/peercache/internal/markdown"
)

// TestQuotedOutput checks that what docs/kubectl.md shows of a command is what the command prints in its test. A line of three dots
// leaves out the rest.
func TestQuotedOutput(t *testing.T) {
	text, err := os.ReadFile("../docs/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"status", "members", "rails", "disks", "top", "doctor", "bench"} {
		golden, err := os.ReadFile("testdata/" + command + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		_, quoted, found := strings.Cut(string(text), "\n    $ kubectl peercache "+command+" kv")
		_, quoted, _ = strings.Cut(quoted, "\n") // the rest of the command
		var shown strings.Builder
		for line := range strings.Lines(quoted) {
			if line != "\n" && !strings.HasPrefix(line, "    ") {
				break
			}
			shown.WriteString(strings.TrimPrefix(line, "    "))
		}
		begin, more := strings.CutSuffix(strings.TrimSpace(shown.String()), "\n...")
		output := strings.TrimSpace(string(golden))
		if !found || begin == "" || more && !strings.HasPrefix(output, begin) || !more && output != begin {
			t.Errorf("docs/kubectl.md shows of %s\n%s\nand it prints\n%s", command, begin, output)
		}
	}
}

// TestQuotedFlags checks that commands take the flags and arguments with which pages write them. A command without anything is
// only named.
func TestQuotedFlags(t *testing.T) {
	files, err := markdown.Files("..", "README.md", "docs")
	if err != nil {
		t.Fatal(err)
	}
	ends := regexp.MustCompile(`\s+#|\s{2,}|[|>;:,]|\. |\.$|&&|\)`)
	commands := regexp.MustCompile("(?m)(?:^ +(?:\\$ )?|`)kubectl peercache ([^`\n]+)")
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range commands.FindAllStringSubmatch(string(text), -1) {
			line := strings.TrimSpace(ends.Split(match[1], 2)[0])
			p := &plugin{
				IOStreams: genericiooptions.NewTestIOStreamsDiscard(), version: "0.1.0", flags: genericclioptions.NewConfigFlags(false), now: time.Now,
			}
			command, args, err := p.command().Find(strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(line)))
			if err == nil {
				err = command.ParseFlags(args)
			}
			if err == nil && command.Args != nil && len(args) > 0 {
				err = command.ValidateArgs(command.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: kubectl peercache %s: %v", strings.TrimPrefix(file, "../"), line, err)
			}
			checked++
		}
	}
	if checked < 60 {
		t.Errorf("only %d commands were found", checked)
	}
}
