// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// valuesSchema is values.schema.json.
type valuesSchema struct{ root map[string]any }

func readSchema(t *testing.T) valuesSchema {
	t.Helper()
	var s valuesSchema
	if err := json.Unmarshal([]byte(read(t, "peercache/values.schema.json")), &s.root); err != nil {
		t.Fatal(err)
	}
	return s
}

// typeOf says in a few words what a value may be, by its path.
func (s valuesSchema) typeOf(t *testing.T, path string) string {
	t.Helper()
	at := s.root
	for key := range strings.SplitSeq(path, ".") {
		properties, _ := at["properties"].(map[string]any)
		at = s.follow(properties[key])
	}
	if words := s.words(at); words != "" {
		return words
	}
	t.Errorf("values.schema.json does not say what %s may be", path)
	return ""
}

// follow replaces a reference, such as #/definitions/image/properties/tag, by what it refers to.
func (s valuesSchema) follow(schema any) map[string]any {
	at, _ := schema.(map[string]any)
	ref, ok := at["$ref"].(string)
	if !ok {
		return at
	}
	at = s.root
	for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at, _ = at[key].(map[string]any)
	}
	return s.follow(at)
}

func (s valuesSchema) words(schema map[string]any) string {
	if choices, ok := schema["enum"].([]any); ok {
		var names []string
		for _, choice := range choices {
			if choice != "" {
				names = append(names, fmt.Sprintf("`%v`", choice))
			}
		}
		return strings.Join(names, ", ")
	}
	if either, ok := schema["anyOf"].([]any); ok {
		var all []string
		for _, one := range either {
			all = append(all, s.words(s.follow(one)))
		}
		return strings.Join(all, " or ")
	}
	kind, _ := schema["type"].(string)
	switch kind {
	case "array":
		return "list of " + s.words(s.follow(schema["items"])) + "s"
	case "object":
		if inner := s.follow(schema["additionalProperties"]); inner["type"] == "string" {
			return "map of strings"
		}
	case "integer":
		minimum, maximum := schema["minimum"], schema["maximum"]
		switch {
		case minimum != nil && maximum != nil:
			return fmt.Sprintf("integer, %v to %v", minimum, maximum)
		case minimum != nil:
			return fmt.Sprintf("integer, at least %v", minimum)
		}
	}
	return kind
}
