// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
)

// DefaultGroup is the group of machines without rails, and of rails that nothing else groups.
const DefaultGroup = "default"

// Group is the set of rails that one node drives, on the machines of one pool. It has a DaemonSet of its own.
type Group struct {
	Name  string
	Rails []v1alpha1.Rail // sorted by name
	// Pool is nil in a cluster without node pools.
	Pool *v1alpha1.NodePool
}

// Groups sorts the rails into groups, ordered by pool as in the spec and then by name. There is always at
// least one. Groups of different pools may have one name: a machine belongs to one pool, so that sockets and
// node ids stay unique, and an SGLang pod finds its socket under the same name on both kinds of machines.
func Groups(spec v1alpha1.PeerCacheClusterSpec) []Group {
	if len(spec.NodePools) == 0 {
		return groupsOf(spec.Rails, spec.Layout, nil)
	}
	var groups []Group
	for i := range spec.NodePools {
		pool := &spec.NodePools[i]
		var rails []v1alpha1.Rail
		for _, rail := range spec.Rails {
			if slices.Contains(pool.Rails, rail.Name) {
				rails = append(rails, rail)
			}
		}
		groups = append(groups, groupsOf(rails, spec.Layout, pool)...)
	}
	return groups
}

func groupsOf(rails []v1alpha1.Rail, layout v1alpha1.Layout, pool *v1alpha1.NodePool) []Group {
	if len(rails) == 0 {
		return []Group{{Name: DefaultGroup, Pool: pool}}
	}
	byName := map[string][]v1alpha1.Rail{}
	for _, rail := range rails {
		name := groupOf(rail, layout)
		byName[name] = append(byName[name], rail)
	}
	groups := make([]Group, 0, len(byName))
	for name, rails := range byName {
		slices.SortFunc(rails, func(a, b v1alpha1.Rail) int { return strings.Compare(a.Name, b.Name) })
		groups = append(groups, Group{Name: name, Rails: rails, Pool: pool})
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

// FullName tells the group from those of other pools; its DaemonSet is named after it.
func (g Group) FullName() string {
	if g.Pool == nil {
		return g.Name
	}
	return g.Pool.Name + "-" + g.Name
}

// Memory of the group's nodes.
func (g Group) Memory(spec v1alpha1.PeerCacheClusterSpec) v1alpha1.MemorySpec {
	if g.Pool != nil && g.Pool.Memory != nil {
		return *g.Pool.Memory
	}
	return spec.Memory
}

func (g Group) resources(spec v1alpha1.PeerCacheClusterSpec) v1alpha1.ResourcesSpec {
	if g.Pool != nil && g.Pool.Resources != nil {
		return *g.Pool.Resources
	}
	return spec.Resources
}

// transport is what the group's nodes use: without rails there is only one.
func (g Group) transport(spec v1alpha1.PeerCacheClusterSpec) v1alpha1.Transport {
	if len(g.Rails) == 0 {
		return v1alpha1.TransportTCP
	}
	return spec.Transport
}

// rdma says whether the group's nodes open RDMA devices.
func (g Group) rdma(spec v1alpha1.PeerCacheClusterSpec) bool {
	return g.transport(spec) != v1alpha1.TransportTCP
}

// OpenRails is how many rails each of the group's nodes opens.
func (g Group) OpenRails(spec v1alpha1.PeerCacheClusterSpec) int {
	if !g.rdma(spec) {
		return 0
	}
	return len(g.Rails)
}

// NearNUMA says whether the group's nodes may have a NUMA node to be on.
func (g Group) NearNUMA(spec v1alpha1.PeerCacheClusterSpec) bool {
	return g.rdma(spec) || g.numaNode() != ""
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

// railsOn are the rails whose interface in the pod has that name: one, or none.
func (g Group) railsOn(name string) []v1alpha1.Rail {
	var rails []v1alpha1.Rail
	for _, rail := range g.Rails {
		if name != "" && rail.Interface == name {
			rails = append(rails, rail)
		}
	}
	return rails
}

// Unused are the rails that carry no pages: by TCP these travel at discovery.interface, or over the network that every pod has.
func (g Group) Unused(spec v1alpha1.PeerCacheClusterSpec) []v1alpha1.Rail {
	if g.rdma(spec) || g.onHostNetwork() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.Rails), func(rail v1alpha1.Rail) bool {
		return rail.Interface != "" && rail.Interface == spec.Discovery.Interface
	})
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

// numaNode is the NUMA node of all the group's rails, or "" where they have none in common.
func (g Group) numaNode() string {
	node := ""
	for _, rail := range g.Rails {
		if rail.NUMANode == nil {
			return ""
		}
		text := strconv.Itoa(int(*rail.NUMANode))
		if node != "" && node != text {
			return ""
		}
		node = text
	}
	return node
}
