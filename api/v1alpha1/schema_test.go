// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// schema is the part of an OpenAPI schema that the tests look at.
type schema struct {
	Type                 string            `json:"type"`
	Description          string            `json:"description"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties *schema           `json:"additionalProperties"`
}

func readSchema(t *testing.T) schema {
	t.Helper()
	content, err := os.ReadFile("../../config/crd/peercache.io_peercacheclusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) != 1 || len(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties) < 4 {
		t.Fatalf("the CRD is not understood: %+v", crd)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// walk calls visit for every field below a schema.
func walk(path string, s schema, visit func(path string, field schema)) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		visit(path+"."+name, field)
		walk(path+"."+name, field, visit)
	}
	for _, inner := range []*schema{s.Items, s.AdditionalProperties} {
		if inner != nil {
			walk(path+"[]", *inner, visit)
		}
	}
}

// `kubectl explain` prints the descriptions. Those of our own fields begin with the field's name.
func TestEveryFieldIsExplained(t *testing.T) {
	fields := 0
	walk("", readSchema(t), func(path string, field schema) {
		fields++
		if path == ".metadata" {
			return // explained by Kubernetes
		}
		if len(field.Description) < 20 {
			t.Errorf("%s is not explained: %q", path, field.Description)
		}
		if strings.Contains(field.Description, "TODO") {
			t.Errorf("%s is explained by a note to ourselves: %q", path, field.Description)
		}
	})
	if fields < 60 {
		t.Errorf("only %d fields were found", fields)
	}
}

// Bools cannot grow a third value and floats do not survive a round trip; Kubernetes' API conventions advise
// against both.
func TestNoBoolsAndNoFloats(t *testing.T) {
	walk("", readSchema(t), func(path string, field schema) {
		if field.Type == "boolean" || field.Type == "number" {
			t.Errorf("%s is a %s: use an enumeration, an integer with its unit in the name, or a quantity", path, field.Type)
		}
	})
}
