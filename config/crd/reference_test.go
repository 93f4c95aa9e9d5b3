// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const referenceFile = "../../docs/reference/crd.md"

var update = flag.Bool("update", false, "write "+referenceFile+" anew")

// TestReference: the reference says what the CustomResourceDefinition says, and every field is explained there.
func TestReference(t *testing.T) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(PeerCacheClusters, &definition); err != nil {
		t.Fatal(err)
	}
	want, unexplained := reference(definition)
	for _, field := range unexplained {
		t.Errorf("%s has no comment in api/v1alpha1", field)
	}
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatalf("%v: run `make crd-reference`", err)
	}
	if string(got) != want {
		t.Error("docs/reference/crd.md does not say what config/crd says: run `make crd-reference`")
	}
}

// page collects the text and the fields without one.
type page struct {
	strings.Builder
	unexplained []string
}

func (p *page) printf(format string, arguments ...any) {
	fmt.Fprintf(&p.Builder, format, arguments...)
}

// reference is the page about a kind. It also returns the fields that have no description.
func reference(definition apiextensionsv1.CustomResourceDefinition) (text string, unexplained []string) {
	p := &page{}
	version := definition.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	names := definition.Spec.Names
	p.printf("# %s\n\n<!-- written by `make crd-reference` from the CustomResourceDefinition; change api/v1alpha1 instead -->\n\n",
		names.Kind)
	p.printf("`%s/%s`, %s, short name `%s`. `kubectl explain %s.spec` shows the same.\n\n", definition.Spec.Group, version.Name,
		strings.ToLower(string(definition.Spec.Scope)), strings.Join(names.ShortNames, "`, `"), names.ShortNames[0])
	p.printf("%s\n", prose(schema.Description))
	p.rules(schema)
	for _, part := range []string{"spec", "status"} {
		p.object(part, schema.Properties[part])
	}
	p.columns(version.AdditionalPrinterColumns)
	return p.String(), p.unexplained
}

// object writes a section about an object, and then those about the objects in it.
func (p *page) object(path string, schema apiextensionsv1.JSONSchemaProps) {
	p.printf("\n## %s\n\n", path)
	if schema.Description != "" {
		p.printf("%s\n\n", prose(schema.Description))
	}
	p.WriteString("| Field | Type | Default | Meaning |\n| --- | --- | --- | --- |\n")
	fields := slices.Sorted(maps.Keys(schema.Properties))
	for _, name := range fields {
		field := schema.Properties[name]
		if field.Description == "" {
			p.unexplained = append(p.unexplained, path+"."+name)
		}
		shown := "`" + name + "`"
		if inner, _ := inside(path+"."+name, field); inner != "" {
			shown = "[" + shown + "](#" + anchor(inner) + ")"
		}
		if slices.Contains(schema.Required, name) {
			shown += " *"
		}
		meaning := prose(field.Description)
		if limits := limitsOf(field); limits != "" {
			meaning += " *" + limits + "*"
		}
		p.printf("| %s | %s | %s | %s |\n", shown, typeOf(field), defaultOf(field), cell(meaning))
	}
	if len(schema.Required) > 0 {
		p.WriteString("\n\\* required\n")
	}
	p.rules(&schema)
	for _, name := range fields {
		if inner, of := inside(path+"."+name, schema.Properties[name]); inner != "" {
			p.object(inner, of)
		}
	}
}

// inside is the object that a field holds, or a list or map of them, with its path; "" where it holds none.
func inside(path string, field apiextensionsv1.JSONSchemaProps) (string, apiextensionsv1.JSONSchemaProps) {
	switch {
	case len(field.Properties) > 0:
		return path, field
	case field.Items != nil && field.Items.Schema != nil && len(field.Items.Schema.Properties) > 0:
		return path + "[]", *field.Items.Schema
	default:
		return "", field
	}
}

// rules are what must hold between fields; the messages say what to write instead.
func (p *page) rules(schema *apiextensionsv1.JSONSchemaProps) {
	if len(schema.XValidations) == 0 {
		return
	}
	p.WriteString("\nRefused, with these messages:\n\n")
	for _, rule := range schema.XValidations {
		p.printf("- %s\n", prose(rule.Message))
	}
}

func (p *page) columns(columns []apiextensionsv1.CustomResourceColumnDefinition) {
	p.WriteString("\n## Columns of kubectl get\n\n| Column | Shown with | Meaning |\n| --- | --- | --- |\n")
	for _, column := range columns {
		with := "always"
		if column.Priority > 0 {
			with = "`-o wide`"
		}
		meaning := column.Description
		if meaning == "" {
			meaning = "`" + column.JSONPath + "`"
		}
		p.printf("| %s | %s | %s |\n", column.Name, with, cell(prose(meaning)))
	}
}

func typeOf(field apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "quantity"
	case field.Type == "array" && field.Items != nil && field.Items.Schema != nil:
		return "list of " + typeOf(*field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(*field.AdditionalProperties.Schema)
	case field.Format == "date-time":
		return "time"
	default:
		return field.Type
	}
}

func defaultOf(field apiextensionsv1.JSONSchemaProps) string {
	if field.Default == nil || len(field.Properties) > 0 { // of an object, its fields say it
		return ""
	}
	var text string
	if json.Unmarshal(field.Default.Raw, &text) == nil {
		return "`" + text + "`"
	}
	return "`" + string(field.Default.Raw) + "`"
}

// limitsOf is what a value must be like, with the messages of the field's own rules.
func limitsOf(field apiextensionsv1.JSONSchemaProps) string {
	var limits []string
	if len(field.Enum) > 0 {
		var values []string
		for _, value := range field.Enum {
			values = append(values, strings.Trim(string(value.Raw), `"`))
		}
		limits = append(limits, "One of "+strings.Join(values, ", ")+".")
	}
	limits = append(limits, between("", field.Minimum, field.Maximum))
	limits = append(limits, between(" characters", whole(field.MinLength), whole(field.MaxLength)))
	limits = append(limits, between(" items", whole(field.MinItems), whole(field.MaxItems)))
	limits = append(limits, between(" entries", whole(field.MinProperties), whole(field.MaxProperties)))
	if len(field.Properties) == 0 { // an object has a section for its rules
		for _, rule := range field.XValidations {
			limits = append(limits, prose(strings.TrimSuffix(rule.Message, ".")+"."))
		}
	}
	return strings.Join(slices.DeleteFunc(limits, func(limit string) bool { return limit == "" }), " ")
}

func whole(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

func between(of string, low, high *float64) string {
	show := func(n *float64) string { return strconv.FormatFloat(*n, 'f', -1, 64) }
	switch {
	case low != nil && high != nil:
		return "From " + show(low) + " to " + show(high) + of + "."
	case low != nil:
		return "At least " + show(low) + of + "."
	case high != nil:
		return "At most " + show(high) + of + "."
	default:
		return ""
	}
}

// prose is a description on one line, in which Markdown finds nothing to format but code.
func prose(text string) string {
	parts := strings.Split(strings.Join(strings.Fields(text), " "), "`")
	for i := 0; i < len(parts); i += 2 { // the others are code
		parts[i] = strings.NewReplacer("<", "&lt;", ">", "&gt;", "*", `\*`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	var kept strings.Builder
	for _, r := range strings.ToLower(heading) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			kept.WriteRune(r)
		}
	}
	return kept.String()
}
