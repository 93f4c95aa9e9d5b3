// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Problem is a spec that the API server accepts but that cannot be put into effect.
type Problem struct {
	// Reason is the reason of the condition, in CamelCase.
	Reason string
	// Message names the field and the fix.
	Message string
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

// check returns the first problem that the API server cannot detect, because it depends on several fields.
func check(spec v1alpha1.PeerCacheClusterSpec, groups []Group) *Problem {
	for _, find := range []func([]Group) *Problem{
		checkNames, checkHostNetwork, checkInterfaces, checkPeerInterface(spec), checkUnusedNetworks(spec), checkRequests,
		checkSelectors(spec), checkNamespaceSelector(spec), checkProvision(spec),
		checkAttachments, checkExtraConfig(spec),
	} {
		if problem := find(groups); problem != nil {
			return problem
		}
	}
	return nil
}

// checkNames detects equal names of DaemonSets: pool "a-b" with group "c", and pool "a" with group "b-c".
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

// checkHostNetwork checks each pool separately: groups of different pools never share a machine.
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
				Message: fmt.Sprintf("groups %q and %q are both attached by HostNetwork, so their members would need "+
					"the same ports of the machine: put these rails into one rails[].group, or use another attachment",
					other.Name, group.Name),
			}
		}
		onHost[group.Pool] = group
	}
	return nil
}

// checkAttachments detects rails without the settings of their attachment. The API server refuses them, but objects that an
// earlier release stored may have them: their nodes must not be replaced by ones without devices.
func checkAttachments(groups []Group) *Problem {
	for _, group := range groups {
		for _, rail := range group.Rails {
			missing := map[v1alpha1.RailAttachment]bool{
				v1alpha1.AttachmentSharedDevicePlugin: rail.SharedDevicePlugin == nil, v1alpha1.AttachmentSRIOV: rail.SRIOV == nil,
				v1alpha1.AttachmentDRA: rail.DRA == nil,
			}
			if missing[rail.Attachment] {
				return &Problem{Reason: "RailIncomplete", Message: fmt.Sprintf("rail %q has attachment %s, but not its settings: "+
					"apply the manifest again, with them", rail.Name, rail.Attachment)}
			}
		}
	}
	return nil
}

// checkInterfaces detects names and addresses that two rails of a pod would both use.
func checkInterfaces(groups []Group) *Problem {
	for _, group := range groups {
		owner := map[string]string{}
		for _, rail := range group.Rails {
			attached := rail.Attached()
			wanted := map[string]string{"interface": attached.Interface, "mac": attached.MAC}
			for _, ip := range attached.IPs {
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

// checkPeerInterface detects groups whose nodes lack the interface at which others reach them.
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
				"members of group %q have no interface %q, at which discovery.interface lets others reach them: write network.interface: %s at "+
					"one of the group's rails, or remove discovery.interface",
				group.FullName(), spec.Discovery.Interface, spec.Discovery.Interface)}
		}
		return nil
	}
}

// checkUnusedNetworks detects rails that are only a network, and not the network of discovery.interface: they carry no pages.
// At most one rail of a group can be that network, because a pod has one interface of the name.
func checkUnusedNetworks(spec v1alpha1.PeerCacheClusterSpec) func([]Group) *Problem {
	return func(groups []Group) *Problem {
		for _, group := range groups {
			for _, rail := range group.Unused(spec) {
				if rail.Attachment != v1alpha1.AttachmentNetwork {
					continue
				}
				name := cmp.Or(rail.Attached().Interface, "rail0")
				fix := fmt.Sprintf("write network.interface: %s at this rail and discovery.interface: %s, or remove the rail", name, name)
				if reached := group.railsOn(spec.Discovery.Interface); len(reached) > 0 {
					fix = fmt.Sprintf("remove the rail, for others reach these members at interface %s of rail %q",
						reached[0].Attached().Interface, reached[0].Name)
				}
				return &Problem{Reason: "NetworkUnused", Message: fmt.Sprintf("rail %q of group %q is attached by Network, but "+
					"carries no pages, because its interface is not discovery.interface: %s", rail.Name, group.FullName(), fix)}
			}
		}
		return nil
	}
}

// checkRequests detects requests of a shared ResourceClaim that two rails name. One request is one device.
func checkRequests(groups []Group) *Problem {
	for _, group := range groups {
		owner := map[[2]string]string{}
		mode := map[string]v1alpha1.Rail{} // the last rail of a template
		for _, rail := range group.railsWith(v1alpha1.AttachmentDRA) {
			template, request := rail.Claim().ResourceClaimTemplate, rail.Claim().Request
			if other, found := mode[template]; found && (other.Claim().Request == "") != (request == "") {
				return &Problem{Reason: "RequestMissing", Message: fmt.Sprintf(
					"rails %q and %q of group %q name resourceClaimTemplate %s, but only one names a request. To share one "+
						"claim, set request on both. For one claim each, remove it",
					other.Name, rail.Name, group.Name, template)}
			}
			mode[template] = rail
			if request == "" {
				continue
			}
			key := [2]string{template, request}
			if other, taken := owner[key]; taken {
				return &Problem{Reason: "RequestConflict", Message: fmt.Sprintf(
					"rails %q and %q of group %q both stand for request %q of resourceClaimTemplate %q: name a request of its "+
						"own for each rail", other, rail.Name, group.Name, request, template)}
			}
			owner[key] = rail.Name
		}
	}
	return nil
}

// checkNamespaceSelector detects a selector that the API server accepts and no pod's namespace could be compared with.
func checkNamespaceSelector(spec v1alpha1.PeerCacheClusterSpec) func([]Group) *Problem {
	return func([]Group) *Problem {
		if _, err := metav1.LabelSelectorAsSelector(spec.Injection.NamespaceSelector); err != nil {
			return &Problem{Reason: "SelectorInvalid", Message: fmt.Sprintf("injection.namespaceSelector cannot be used: %v: write for "+
				"example {matchLabels: {%s: NAMESPACE}} for one namespace, {} for all, or leave it out for this one", err, corev1.LabelMetadataName)}
		}
		return nil
	}
}

// checkSelectors detects pools that contradict spec.nodes and would never have a machine.
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
