// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

// Cluster is what the manifest needs besides what was found.
type Cluster struct {
	Name, Namespace string
	// Selector chooses the machines by labels.
	Selector map[string]string
	// Provision has the operator make the device plug-in and the networks.
	Provision bool
}

//go:embed manifest.tmpl
var manifestText string

var manifest = template.Must(template.New("manifest").Funcs(template.FuncMap{
	"join": func(list any) string { return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ", ") },
}).Parse(manifestText))

// Manifest writes the PeerCacheCluster.
func Manifest(found *Found, cluster Cluster) (string, error) {
	var text bytes.Buffer
	err := manifest.Execute(&text, view{found, cluster})
	if err != nil {
		return "", fmt.Errorf("writing the manifest: %w", err)
	}
	return text.String(), nil
}

// view is what the template shows.
type view struct {
	*Found
	Cluster
}

// RoCE is true where rails have networks.
func (v view) RoCE() bool { return v.Rails[0].RoCE() }

// SelectorText is the selector as YAML.
func (v view) SelectorText() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(v.Selector)) {
		parts = append(parts, fmt.Sprintf("%s: %q", key, v.Selector[key]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Beside describes the rails and GPUs of each NUMA node.
func (v view) Beside() string {
	rails := map[int][]string{}
	for _, rail := range v.Rails {
		rails[rail.NUMANode] = append(rails[rail.NUMANode], rail.Name)
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(rails)) {
		if node < 0 {
			return fmt.Sprintf("%d GPUs", total(v.GPUs))
		}
		parts = append(parts, fmt.Sprintf("numa%d has %s and %d GPUs", node, strings.Join(rails[node], ", "), v.GPUs[node]))
	}
	return strings.Join(parts, "; ")
}
