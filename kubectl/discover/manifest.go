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

	"github.com/peercache/peercache/api/v1alpha1"
)

// Cluster is what the manifest needs besides what was found.
type Cluster struct {
	Name, Namespace string
	// Selector chooses the machines by labels.
	Selector map[string]string
	// Provision has the operator make the networks, and the device plug-in for shared ports.
	Provision bool
}

//go:embed manifest.tmpl
var manifestText string

var manifest = template.Must(template.New("manifest").Funcs(template.FuncMap{
	"comment": comment,
	"join":    func(list any) string { return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ", ") },
}).Parse(manifestText))

// commentWidth is the longest line of a comment in columns.
const commentWidth = 110

// comment breaks a text into lines, which begin with "# " and from the second on with "#   ".
func comment(text string) string {
	var lines []string
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > commentWidth {
			lines, line = append(lines, line), "#  "
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}

// Manifest writes the PeerCacheCluster, with the DeviceClass and the ResourceClaimTemplates that it needs.
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

// RoCE is true where packets have a traffic class.
func (v view) RoCE() bool { return v.Rails[0].RoCE }

// Shared is true where the device plug-in for shared ports hands them out.
func (v view) Shared() bool { return v.Attachment == v1alpha1.AttachmentSharedDevicePlugin }

// Networks are the rails whose networks the operator makes.
func (v view) Networks() []Rail {
	return slices.DeleteFunc(slices.Clone(v.Rails), func(r Rail) bool { return r.Network == "" || r.Exists })
}

// Provisions is true where the operator makes something.
func (v view) Provisions() bool { return v.Provision && (v.Shared() || len(v.Networks()) > 0) }

// CPU is a whole number where the device plug-in tells the kubelet the NUMA node of a device (docs/rails.md).
func (v view) CPU() string {
	if v.Attachment == v1alpha1.AttachmentSRIOV {
		return `"8"`
	}
	return "7500m"
}

// Settings are those of the rail's attachment.
func (v view) Settings(r Rail) string {
	switch v.Attachment {
	case v1alpha1.AttachmentDRA:
		return fmt.Sprintf("dra: {resourceClaimTemplate: %s, request: %s}", v.claimName(r), r.Name)
	case v1alpha1.AttachmentSRIOV:
		return fmt.Sprintf("sriov: {resourceName: %s}", r.Resource)
	default:
		return fmt.Sprintf("sharedDevicePlugin: {resourceName: %s}", r.Resource)
	}
}

// claimTemplate is a ResourceClaimTemplate: the rails of a group share a claim.
type claimTemplate struct {
	Name  string
	Rails []Rail
}

// ClaimTemplates are the ResourceClaimTemplates, one for each group.
func (v view) ClaimTemplates() []claimTemplate {
	var templates []claimTemplate
	for _, rail := range v.Rails { // in the order of NUMA nodes
		if name := v.claimName(rail); len(templates) == 0 || templates[len(templates)-1].Name != name {
			templates = append(templates, claimTemplate{Name: name})
		}
		last := &templates[len(templates)-1]
		last.Rails = append(last.Rails, rail)
	}
	return templates
}

// claimName is the name of the ResourceClaimTemplate of the rail's group.
func (v view) claimName(r Rail) string {
	if r.NUMANode < 0 {
		return v.Name
	}
	return fmt.Sprintf("%s-numa%d", v.Name, r.NUMANode)
}

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
