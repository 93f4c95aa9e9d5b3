// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/config/crd"
)

// readCluster reads a PeerCacheCluster from a file, with the defaults that the API server would fill in.
func (p *plugin) readCluster(file string) (*v1alpha1.PeerCacheCluster, error) {
	text, err := p.read(file)
	if err != nil {
		return nil, err
	}
	cluster, err := parseCluster(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cluster, nil
}

func parseCluster(text []byte) (*v1alpha1.PeerCacheCluster, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("%w: write one PeerCacheCluster into the file", err)
	}
	if fields["kind"] != "PeerCacheCluster" {
		return nil, fmt.Errorf("kind is %v: write one PeerCacheCluster into the file", fields["kind"])
	}
	schema, err := clusterSchema()
	if err != nil {
		return nil, err
	}
	fillDefaults(schema, fields)
	cluster := &v1alpha1.PeerCacheCluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, cluster, true); err != nil {
		return nil, fmt.Errorf("%w: correct the field", err)
	}
	cluster.Namespace = cmp.Or(cluster.Namespace, "default")
	return cluster, nil
}

// clusterSchema returns the schema of a PeerCacheCluster from the embedded CustomResourceDefinition.
func clusterSchema() (map[string]any, error) {
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(crd.PeerCacheClusters, &definition); err != nil {
		return nil, fmt.Errorf("reading the CustomResourceDefinition in this program: %w", err)
	}
	for _, version := range definition.Spec.Versions {
		if version.Name == v1alpha1.GroupVersion.Version {
			return version.Schema.OpenAPIV3Schema, nil
		}
	}
	return nil, fmt.Errorf("the CustomResourceDefinition in this program has no version %s", v1alpha1.GroupVersion.Version)
}

// fillDefaults sets defaults as the API server does: first of a missing field, then of the fields in its value.
func fillDefaults(schema map[string]any, value any) {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, of := range properties {
			field, _ := of.(map[string]any)
			if _, there := v[name]; !there && field["default"] != nil {
				v[name] = runtime.DeepCopyJSONValue(field["default"])
			}
			fillDefaults(field, v[name])
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, item := range v {
			fillDefaults(items, item)
		}
	}
}
