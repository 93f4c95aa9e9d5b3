// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/api/v1alpha1"
)

// MultusNetworks is the annotation with which a pod asks Multus for interfaces.
const MultusNetworks = "k8s.v1.cni.cncf.io/networks"

// NetworkSelection is one element of MultusNetworks, as the Network Plumbing Working Group defines it
// (NetworkSelectionElement). Without a namespace, it means the namespace of the pod.
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
		attached := rail.Attached()
		if attached.Name == "" {
			continue
		}
		namespace, name := splitNetwork(rail)
		selections = append(selections, NetworkSelection{
			Name: name, Namespace: namespace, Interface: attached.Interface, IPs: attached.IPs, MAC: attached.MAC,
		})
	}
	return selections
}

// networks is the value of MultusNetworks, or "" where no rail needs a network.
func (g Group) networks() string {
	selections := g.selections()
	if len(selections) == 0 {
		return ""
	}
	text, err := json.Marshal(selections)
	if err != nil {
		panic(err) // encoding a struct of strings cannot fail
	}
	return string(text)
}

// NetworkOf is the NetworkAttachmentDefinition that a rail names. Its default namespace is that of the pod.
func NetworkOf(cluster *v1alpha1.PeerCacheCluster, rail v1alpha1.Rail) types.NamespacedName {
	namespace, name := splitNetwork(rail)
	if namespace == "" {
		namespace = cluster.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// splitNetwork splits rails[].network.name. The namespace is "" where the rail names none.
func splitNetwork(rail v1alpha1.Rail) (namespace, name string) {
	attached := rail.Attached().Name
	namespace, name, found := strings.Cut(attached, "/")
	if !found {
		return "", attached
	}
	return namespace, name
}
