// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"flag"
	"os"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the table of values in peercache/README.md anew")

const (
	readmeFile  = "peercache/README.md"
	tableBegins = "<!-- values: written by `make chart-readme` -->\n"
	tableEnds   = "<!-- end of values -->\n"
)

// TestReadme: the table of values in the README says what values.yaml says, and every value has a comment.
func TestReadme(t *testing.T) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal([]byte(read(t, "peercache/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| Value | Type | Default | Meaning |\n| --- | --- | --- | --- |\n")
	writeRows(t, &table, readSchema(t), "", document.Content[0])

	readme := read(t, readmeFile)
	before, rest, ok := strings.Cut(readme, tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", readmeFile, tableBegins, tableEnds)
	}
	want := before + tableBegins + table.String() + tableEnds + after
	if *update {
		if err := os.WriteFile(readmeFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if readme != want {
		t.Errorf("charts/%s does not say what values.yaml says: run `make chart-readme`", readmeFile)
	}
}

// writeRows writes a row for every value that has a comment of its own, and goes into the others.
func writeRows(t *testing.T, table *strings.Builder, schema valuesSchema, path string, mapping *yamlv3.Node) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		comment := strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment, "#", "")), " ")
		switch {
		case comment != "":
			table.WriteString("| `" + name + "` | " + schema.typeOf(t, name) + " | " + defaultOf(t, value) + " | " + comment + " |\n")
		case value.Kind == yamlv3.MappingNode && len(value.Content) > 0:
			writeRows(t, table, schema, name, value)
		default:
			t.Errorf("value %s has no comment in values.yaml", name)
		}
	}
}

// defaultOf is a value in one line.
func defaultOf(t *testing.T, value *yamlv3.Node) string {
	t.Helper()
	if value.Kind == yamlv3.ScalarNode {
		if value.Value == "" {
			return "`\"\"`"
		}
		return "`" + value.Value + "`"
	}
	flow := *value
	setFlow(&flow)
	text, err := yamlv3.Marshal(&flow)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + strings.Join(strings.Fields(string(text)), " ") + "`"
}

func setFlow(node *yamlv3.Node) {
	node.Style |= yamlv3.FlowStyle
	for _, child := range node.Content {
		setFlow(child)
	}
}
