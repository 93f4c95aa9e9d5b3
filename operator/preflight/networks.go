// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// networksResolved checks the NetworkAttachmentDefinitions that the rails name.
func networksResolved(cluster *v1alpha1.PeerCacheCluster, groups []plan.Group, facts Facts, at placed) metav1.Condition {
	const kind = v1alpha1.ConditionNetworksResolved
	networks, _ := References(cluster, groups)
	if len(networks) == 0 {
		return newCondition(kind, metav1.ConditionTrue, "NotNeeded", "no rail names a network")
	}
	if !facts.Multus {
		return newCondition(kind, metav1.ConditionFalse, "MultusMissing", "rails name networks, but the kind NetworkAttachmentDefinition "+
			"does not exist: install Multus, or remove rails[].network")
	}
	var missing []string
	for _, network := range networks {
		if _, found := facts.Networks[network]; !found {
			missing = append(missing, network.String())
		}
	}
	if len(missing) > 0 {
		return newCondition(kind, metav1.ConditionFalse, "NetworkMissing", fmt.Sprintf(
			"NetworkAttachmentDefinition %s does not exist: create it, or correct rails[].network.name", strings.Join(missing, ", ")))
	}
	for i, group := range groups {
		for _, rail := range group.Rails {
			if rail.Network == nil {
				continue
			}
			name := plan.NetworkOf(cluster, rail)
			if problem := conflict(rail, name.String(), facts.Networks[name], at.count[i]); problem != nil {
				return newCondition(kind, metav1.ConditionFalse, problem.reason, problem.text)
			}
		}
	}
	return newCondition(kind, metav1.ConditionTrue, "Resolved", count(len(networks), "network exists", "networks exist"))
}

// conflict returns why a network that exists does not fit the rail, or nil.
func conflict(rail v1alpha1.Rail, name string, network Network, machines int) *shortage {
	switch {
	case rail.Attachment == v1alpha1.AttachmentSRIOV && network.Resource == "":
		return &shortage{"ResourceMismatch", fmt.Sprintf("NetworkAttachmentDefinition %s of rail %q has no annotation "+
			"k8s.v1.cni.cncf.io/resourceName, so the virtual function that the pod is given is not attached: annotate it with %s",
			name, rail.Name, rail.ResourceName())}
	case rail.Attachment == v1alpha1.AttachmentNetwork && network.Resource != "":
		return &shortage{"ResourceMismatch", fmt.Sprintf("NetworkAttachmentDefinition %s attaches devices of resource %s, which rail %q does "+
			"not request: write attachment: SRIOV or SharedDevicePlugin with resourceName: %s, or name another network",
			name, network.Resource, rail.Name, network.Resource)}
	case network.Resource != "" && rail.ResourceName() != "" && network.Resource != rail.ResourceName():
		return &shortage{"ResourceMismatch", fmt.Sprintf("NetworkAttachmentDefinition %s belongs to resource %s, but rail %q "+
			"requests %s: write resourceName: %s, or name another network", name, network.Resource, rail.Name,
			rail.ResourceName(), network.Resource)}
	case machines > 1 && (len(rail.Attached().IPs) > 0 || rail.Attached().MAC != ""):
		return &shortage{"AddressShared", fmt.Sprintf("rail %q asks for fixed addresses, which %d machines would share: "+
			"remove ips and mac of rails[].network and let the network choose, or give each machine a node pool and rails of its own",
			rail.Name, machines)}
	default:
		return nil
	}
}
