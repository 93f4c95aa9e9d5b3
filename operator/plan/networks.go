// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/api/v1alpha1"
)

// MultusNetworks is the annotation by which a pod asks Multus for interfaces.
const MultusNetworks = "k8s.v1.cni.cncf.io/networks"

// NetworkSelection is one element of that annotation, as the Network Plumbing Working Group defines it
// (NetworkSelectionElement). An element without namespace is looked for in the pod's.
type NetworkSelection struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace,omitempty"`
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
}

// selections are the networks that the group's rails need.
func (g Group) selections() []NetworkSelection {
	var selections []NetworkSelection
	for _, rail := range g.Rails {
		if rail.Network == "" {
			continue
		}
		namespace, name := splitNetwork(rail)
		selections = append(selections, NetworkSelection{
			Name: name, Namespace: namespace, Interface: rail.Interface, IPs: rail.IPs, MAC: rail.MAC,
		})
	}
	return selections
}

// networks is the value of the annotation, "" when the group's rails need no network.
func (g Group) networks() string {
	selections := g.selections()
	if len(selections) == 0 {
		return ""
	}
	text, err := json.Marshal(selections)
	if err != nil {
		panic(err) // a struct of strings can always be encoded
	}
	return string(text)
}

// NetworkOf is the NetworkAttachmentDefinition that a rail names: Multus looks in the pod's namespace by default.
func NetworkOf(cluster *v1alpha1.PeerCacheCluster, rail v1alpha1.Rail) types.NamespacedName {
	namespace, name := splitNetwork(rail)
	if namespace == "" {
		namespace = cluster.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// splitNetwork takes rails[].network apart; the namespace is "" where the rail names none.
func splitNetwork(rail v1alpha1.Rail) (namespace, name string) {
	namespace, name, found := strings.Cut(rail.Network, "/")
	if !found {
		return "", rail.Network
	}
	return namespace, name
}
