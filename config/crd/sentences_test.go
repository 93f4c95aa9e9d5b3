// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/internal/markdown"
)

// TestSentencesAreShort: what `kubectl explain` says can be read aloud, like the pages of docs.
func TestSentencesAreShort(t *testing.T) {
	const mostWords = 25
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(PeerCacheClusters, &definition); err != nil {
		t.Fatal(err)
	}
	checked := 0
	var check func(path string, schema apiextensionsv1.JSONSchemaProps)
	check = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		if foreign(path) {
			return
		}
		for _, sentence := range markdown.Sentences(strings.ReplaceAll(schema.Description, "\t", "    ")) {
			checked++
			if sentence.Words > mostWords {
				t.Errorf("%s: a sentence of %d words, %d are the most: %s", path, sentence.Words, mostWords, sentence.Text)
			}
		}
		for name, field := range schema.Properties {
			check(path+"."+name, field)
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			check(path, *schema.Items.Schema)
		}
	}
	check(definition.Spec.Names.Kind, *definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if checked < 300 {
		t.Errorf("only %d sentences were found", checked)
	}
}

// foreign: Kubernetes has written what is said there.
func foreign(path string) bool {
	return strings.HasSuffix(path, ".namespaceSelector.matchLabels") || strings.Contains(path, ".status.conditions.")
}
