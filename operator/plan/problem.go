// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Problem is a spec that the API server accepts but that cannot be put into effect.
type Problem struct {
	// Reason is one word in CamelCase, for a condition.
	Reason string
	// Message names the field and the fix.
	Message string
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

// check finds what the API server cannot: rules that need the groups, which follow from several fields.
func check(spec v1alpha1.PeerCacheClusterSpec, groups []Group) *Problem {
	for _, find := range []func([]Group) *Problem{
		checkNames, checkHostNetwork, checkInterfaces, checkPeerInterface(spec), checkUnusedNetworks(spec), checkRequests,
		checkSelectors(spec), checkProvision(spec),
	} {
		if problem := find(groups); problem != nil {
			return problem
		}
	}
	return nil
}

// checkNames finds DaemonSets of one name: pool "a-b" with group "c", and pool "a" with group "b-c".
func checkNames(groups []Group) *Problem {
	taken := map[string]Group{}
	for _, group := range groups {
		if other, found := taken[group.FullName()]; found {
			return &Problem{Reason: "GroupNameConflict", Message: fmt.Sprintf(
				"group %q of node pool %q and group %q of node pool %q would share the DaemonSet name %q: rename one of the "+
					"pools or groups", other.Name, other.Pool.Name, group.Name, group.Pool.Name, group.FullName())}
		}
		taken[group.FullName()] = group
	}
	return nil
}

// checkHostNetwork looks at each pool by itself: groups of different pools never meet on a machine.
func checkHostNetwork(groups []Group) *Problem {
	onHost := map[*v1alpha1.NodePool]Group{}
	for _, group := range groups {
		host := group.railsWith(v1alpha1.AttachmentHostNetwork)
		if len(host) == 0 {
			continue
		}
		if len(host) < len(group.Rails) {
			return &Problem{
				Reason: "MixedAttachments",
				Message: fmt.Sprintf("rails of group %q are partly attached by HostNetwork, which gives the pod no "+
					"network of its own: give rail %q another rails[].group, or attach all rails of the group alike",
					group.Name, host[0].Name),
			}
		}
		if other, found := onHost[group.Pool]; found {
			return &Problem{
				Reason: "HostPortConflict",
				Message: fmt.Sprintf("groups %q and %q are both attached by HostNetwork, so their nodes would need "+
					"the same ports of the machine: put these rails into one rails[].group, or use another attachment",
					other.Name, group.Name),
			}
		}
		onHost[group.Pool] = group
	}
	return nil
}

// checkInterfaces finds names and addresses that two rails of a pod would both want.
func checkInterfaces(groups []Group) *Problem {
	for _, group := range groups {
		owner := map[string]string{}
		for _, rail := range group.Rails {
			wanted := map[string]string{"interface": rail.Interface, "mac": rail.MAC}
			for _, ip := range rail.IPs {
				wanted["ips "+ip] = ip
			}
			for _, field := range slices.Sorted(maps.Keys(wanted)) {
				value := wanted[field]
				if value == "" {
					continue
				}
				if other, taken := owner[value]; taken {
					return &Problem{Reason: "InterfaceConflict", Message: fmt.Sprintf(
						"rails %q and %q of group %q both ask for %s in one pod: give one of them another %s, or another "+
							"rails[].group", other, rail.Name, group.Name, value, strings.Fields(field)[0])}
				}
				owner[value] = rail.Name
			}
		}
	}
	return nil
}

// checkPeerInterface finds groups whose nodes would not have the interface at which others are to reach them.
func checkPeerInterface(spec v1alpha1.PeerCacheClusterSpec) func([]Group) *Problem {
	return func(groups []Group) *Problem {
		if spec.Discovery.Interface == "" {
			return nil
		}
		for _, group := range groups {
			if group.onHostNetwork() || len(group.railsOn(spec.Discovery.Interface)) > 0 {
				continue
			}
			return &Problem{Reason: "InterfaceMissing", Message: fmt.Sprintf(
				"nodes of group %q have no interface %q, at which discovery.interface lets others reach them: write interface: %s at one "+
					"of the group's rails, with the network that brings it, or remove discovery.interface",
				group.FullName(), spec.Discovery.Interface, spec.Discovery.Interface)}
		}
		return nil
	}
}

// checkUnusedNetworks finds rails that are a network alone, but not the one at which others reach the node: then they are good
// for nothing. A group has one that is, at most, because a pod has one interface of that name.
func checkUnusedNetworks(spec v1alpha1.PeerCacheClusterSpec) func([]Group) *Problem {
	return func(groups []Group) *Problem {
		for _, group := range groups {
			for _, rail := range group.Unused(spec) {
				if rail.Attachment != v1alpha1.AttachmentNetwork {
					continue
				}
				name := cmp.Or(rail.Interface, "rail0")
				fix := fmt.Sprintf("write interface: %s at this rail and discovery.interface: %s, or remove the rail", name, name)
				if reached := group.railsOn(spec.Discovery.Interface); len(reached) > 0 {
					fix = fmt.Sprintf("remove the rail, for others reach these nodes at interface %s of rail %q",
						reached[0].Interface, reached[0].Name)
				}
				return &Problem{Reason: "NetworkUnused", Message: fmt.Sprintf("rail %q of group %q is attached by Network, but "+
					"carries no pages, because its interface is not discovery.interface: %s", rail.Name, group.FullName(), fix)}
			}
		}
		return nil
	}
}

// checkRequests finds requests of a shared ResourceClaim that two rails name: a request is one device.
func checkRequests(groups []Group) *Problem {
	for _, group := range groups {
		owner := map[[2]string]string{}
		mode := map[string]v1alpha1.Rail{}
		for _, rail := range group.railsWith(v1alpha1.AttachmentDRA) {
			template := rail.ResourceClaimTemplate
			if other, found := mode[template]; found && (other.Request == "") != (rail.Request == "") {
				return &Problem{Reason: "RequestMissing", Message: fmt.Sprintf(
					"of rails %q and %q of group %q, both with resourceClaimTemplate: %s, only one names its request: name a "+
						"request for both to share one claim, or for none to get a claim each",
					other.Name, rail.Name, group.Name, template)}
			}
			mode[template] = rail
			if rail.Request == "" {
				continue
			}
			key := [2]string{template, rail.Request}
			if other, taken := owner[key]; taken {
				return &Problem{Reason: "RequestConflict", Message: fmt.Sprintf(
					"rails %q and %q of group %q both stand for request %q of resourceClaimTemplate %q: name a request of its "+
						"own for each rail", other, rail.Name, group.Name, rail.Request, template)}
			}
			owner[key] = rail.Name
		}
	}
	return nil
}

// checkSelectors finds pools that contradict spec.nodes and would never have a machine.
func checkSelectors(spec v1alpha1.PeerCacheClusterSpec) func([]Group) *Problem {
	return func([]Group) *Problem {
		for _, pool := range spec.NodePools {
			for _, label := range slices.Sorted(maps.Keys(pool.Selector)) {
				if value, both := spec.Nodes.Selector[label]; both && value != pool.Selector[label] {
					return &Problem{Reason: "SelectorConflict", Message: fmt.Sprintf(
						"node pool %q selects label %s=%s and nodes.selector %s=%s, which no machine can match: remove the label "+
							"from nodes.selector", pool.Name, label, pool.Selector[label], label, value)}
				}
			}
		}
		return nil
	}
}
