// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
)

// DefaultGroup is the group of a cluster without rails, and of rails that nothing else groups.
const DefaultGroup = "default"

// Group is the set of rails that one node drives.
type Group struct {
	Name  string
	Rails []v1alpha1.Rail // sorted by name
}

// Groups sorts the rails into groups, ordered by name. There is always at least one.
func Groups(spec v1alpha1.PeerCacheClusterSpec) []Group {
	byName := map[string][]v1alpha1.Rail{}
	for _, rail := range spec.Rails {
		name := groupOf(rail, spec.Layout)
		byName[name] = append(byName[name], rail)
	}
	if len(byName) == 0 {
		return []Group{{Name: DefaultGroup}}
	}
	groups := make([]Group, 0, len(byName))
	for name, rails := range byName {
		slices.SortFunc(rails, func(a, b v1alpha1.Rail) int { return strings.Compare(a.Name, b.Name) })
		groups = append(groups, Group{Name: name, Rails: rails})
	}
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

func groupOf(rail v1alpha1.Rail, layout v1alpha1.Layout) string {
	switch {
	case rail.Group != "":
		return rail.Group
	case layout == v1alpha1.LayoutPerRail:
		return rail.Name
	case layout == v1alpha1.LayoutPerNUMA && rail.NUMANode != nil:
		return "numa" + strconv.Itoa(int(*rail.NUMANode))
	default:
		return DefaultGroup
	}
}

func (g Group) railsWith(attachment v1alpha1.RailAttachment) []v1alpha1.Rail {
	var rails []v1alpha1.Rail
	for _, rail := range g.Rails {
		if rail.Attachment == attachment {
			rails = append(rails, rail)
		}
	}
	return rails
}

// onHostNetwork relies on check: the rails of a group are attached by HostNetwork all or not at all.
func (g Group) onHostNetwork() bool {
	return len(g.railsWith(v1alpha1.AttachmentHostNetwork)) > 0
}

// devices are the RDMA devices that the spec names, in the order of the rails.
func (g Group) devices() []string {
	var devices []string
	for _, rail := range g.Rails {
		if rail.Device != "" && !slices.Contains(devices, rail.Device) {
			devices = append(devices, rail.Device)
		}
	}
	return devices
}

// networks is the value of the Multus annotation: "namespace/name@interface,...".
func (g Group) networks() string {
	var networks []string
	for _, rail := range g.Rails {
		if rail.Network == "" {
			continue
		}
		network := rail.Network
		if rail.Interface != "" {
			network += "@" + rail.Interface
		}
		networks = append(networks, network)
	}
	return strings.Join(networks, ",")
}
