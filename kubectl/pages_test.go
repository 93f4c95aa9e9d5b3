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

// TestQuotedFlags checks that commands take the flags and arguments with which pages write them. What a table of docs/upgrade.md
// begins with is of an earlier release; a command without anything is only named.
func TestQuotedFlags(t *testing.T) {
	files, err := markdown.Files("..", "README.md", "docs")
	if err != nil {
		t.Fatal(err)
	}
	ends := regexp.MustCompile(`\s+#|\s{2,}|[|>;:,]|\. |\.$|&&|\)`)
	firstCells := regexp.MustCompile(`(?m)^\| .*? \| `)
	commands := regexp.MustCompile("(?m)(?:^ +(?:\\$ )?|`)kubectl peercache ([^`\n]+)")
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "docs/upgrade.md") {
			text = firstCells.ReplaceAll(text, nil)
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
