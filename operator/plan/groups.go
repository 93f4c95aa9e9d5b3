// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
)

// DefaultGroup is the group of machines without rails, and of rails without another group.
const DefaultGroup = "default"

// Group is the set of rails that one node drives, on the machines of one pool. Each group has a DaemonSet.
type Group struct {
	Name  string
	Rails []v1alpha1.Rail // sorted by name
	// Pool is nil in a cluster without node pools.
	Pool *v1alpha1.NodePool
}

// Groups returns the groups, at least one, in the order of pools and then by name. Groups of different pools may have the same
// name: a machine belongs to one pool, so sockets and node ids stay unique, and an SGLang pod finds its socket under the same
// name on machines of both pools.
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

// FullName distinguishes the group from those of other pools. It is part of the name of the DaemonSet.
func (g Group) FullName() string {
	if g.Pool == nil {
		return g.Name
	}
	return g.Pool.Name + "-" + g.Name
}

// Memory is the memory of the group's nodes.
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

// transport is the transport of the group's nodes. Without rails only TCP is possible.
func (g Group) transport(spec v1alpha1.PeerCacheClusterSpec) v1alpha1.Transport {
	if len(g.Rails) == 0 {
		return v1alpha1.TransportTCP
	}
	return spec.Transport
}

// rdma is true where the group's nodes open RDMA devices.
func (g Group) rdma(spec v1alpha1.PeerCacheClusterSpec) bool {
	return g.transport(spec) != v1alpha1.TransportTCP
}

// OpenRails is the number of rails that each node of the group opens.
func (g Group) OpenRails(spec v1alpha1.PeerCacheClusterSpec) int {
	if !g.rdma(spec) {
		return 0
	}
	return len(g.Rails)
}

// OnlyRDMA is true where all members have rails for RDMA, so that no page has to travel by TCP.
func OnlyRDMA(spec v1alpha1.PeerCacheClusterSpec) bool {
	return !slices.ContainsFunc(Groups(spec), func(g Group) bool { return !g.rdma(spec) })
}

// NearNUMA is true where the group's nodes may have to run on a NUMA node.
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

// railsOn returns the rail whose interface in the pod has the name, if any.
func (g Group) railsOn(name string) []v1alpha1.Rail {
	var rails []v1alpha1.Rail
	for _, rail := range g.Rails {
		if name != "" && rail.Attached().Interface == name {
			rails = append(rails, rail)
		}
	}
	return rails
}

// Unused are the rails that carry no pages. With TCP, pages travel at discovery.interface or over the default network of the
// pod.
func (g Group) Unused(spec v1alpha1.PeerCacheClusterSpec) []v1alpha1.Rail {
	if g.rdma(spec) || g.onHostNetwork() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.Rails), func(rail v1alpha1.Rail) bool {
		name := rail.Attached().Interface
		return name != "" && name == spec.Discovery.Interface
	})
}

// onHostNetwork relies on check: either all rails of a group are attached by HostNetwork, or none.
func (g Group) onHostNetwork() bool {
	return len(g.railsWith(v1alpha1.AttachmentHostNetwork)) > 0
}

// devices are the RDMA devices that the spec names, in the order of the rails.
func (g Group) devices() []string {
	var devices []string
	for _, rail := range g.Rails {
		if device := rail.Device(); device != "" && !slices.Contains(devices, device) {
			devices = append(devices, device)
		}
	}
	return devices
}

// NUMASockets says which socket of a machine is that of which NUMA node, as NODE=PATH,NODE=PATH; "" where the groups are not
// those of several NUMA nodes. SGLang's ranks choose by their GPU (peercache/sglang/gpu.py).
func NUMASockets(spec v1alpha1.PeerCacheClusterSpec) string {
	sockets := map[string]string{}
	for _, group := range Groups(spec) { // pools may have groups of the same name
		node := group.numaNode()
		if have, taken := sockets[node]; node == "" || taken && have != SocketPath(group.Name) {
			return ""
		}
		sockets[node] = SocketPath(group.Name)
	}
	if len(sockets) < 2 {
		return ""
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(sockets)) {
		parts = append(parts, node+"="+sockets[node])
	}
	return strings.Join(parts, ",")
}

// numaNode is the NUMA node of all the group's rails, or "" where they have no common one.
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
