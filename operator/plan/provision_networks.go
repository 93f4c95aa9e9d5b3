// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/peercache/peercache/api/v1alpha1"
)

// NetworkKind is the kind of networks of Multus.
var NetworkKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// NetworkResource is the annotation with the resource whose devices a network attaches.
const NetworkResource = "k8s.v1.cni.cncf.io/resourceName"

// cniConfig is the configuration of the CNI plug-ins macvlan, ipvlan, host-device and sriov.
type cniConfig struct {
	CNIVersion   string          `json:"cniVersion"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Master       string          `json:"master,omitempty"`
	Device       string          `json:"device,omitempty"`
	Mode         string          `json:"mode,omitempty"`
	MTU          int32           `json:"mtu,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	IPAM         ipamConfig      `json:"ipam"`
}

type ipamConfig struct {
	Type    string        `json:"type"`
	Range   string        `json:"range,omitempty"`   // for whereabouts
	Exclude []string      `json:"exclude,omitempty"` // for whereabouts
	Ranges  [][]ipamRange `json:"ranges,omitempty"`  // for host-local, a list of sets
	Routes  []ipamRoute   `json:"routes,omitempty"`
}

type ipamRoute struct {
	Destination string `json:"dst"`
	Gateway     string `json:"gw"`
}

type ipamRange struct {
	Subnet string `json:"subnet"`
}

// buildNetwork returns the NetworkAttachmentDefinition of a rail. The capabilities let Multus pass on the addresses of
// the rail.
func buildNetwork(cluster *v1alpha1.PeerCacheCluster, network v1alpha1.ProvisionedNetwork) *unstructured.Unstructured {
	rail := railNamed(cluster.Spec, network.Rail)
	_, name := splitNetwork(rail)
	attached := rail.Attached()
	config := cniConfig{
		CNIVersion: "0.3.1", Name: name, MTU: network.MTU, IPAM: ipamOf(network.IPAM),
	}
	if len(attached.IPs) > 0 || attached.MAC != "" {
		config.Capabilities = map[string]bool{}
		if len(attached.IPs) > 0 {
			config.Capabilities["ips"] = true
		}
		if attached.MAC != "" {
			config.Capabilities["mac"] = true
		}
	}
	switch network.Type {
	case v1alpha1.NetworkMacvlan:
		config.Type, config.Master, config.Mode = "macvlan", network.Interface, "bridge"
	case v1alpha1.NetworkIPVLAN:
		config.Type, config.Master, config.Mode = "ipvlan", network.Interface, "l2"
	case v1alpha1.NetworkHostDevice:
		config.Type, config.Device = "host-device", network.Interface
	case v1alpha1.NetworkSRIOV:
		config.Type = "sriov"
	}
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // encoding a struct of strings and numbers cannot fail
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": string(text)}}}
	object.SetGroupVersionKind(NetworkKind)
	meta := objectMeta(cluster, name)
	object.SetNamespace(meta.Namespace)
	object.SetName(meta.Name)
	object.SetLabels(meta.Labels)
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cluster,
		v1alpha1.GroupVersion.WithKind("PeerCacheCluster"))})
	if network.Type == v1alpha1.NetworkSRIOV {
		object.SetAnnotations(map[string]string{NetworkResource: rail.ResourceName()})
	}
	return object
}

func ipamOf(ipam v1alpha1.IPAMSpec) ipamConfig {
	var config ipamConfig
	switch ipam.Type {
	case v1alpha1.IPAMHostLocal:
		config = ipamConfig{Type: "host-local", Ranges: [][]ipamRange{{{Subnet: ipam.Range}}}}
	case v1alpha1.IPAMStatic:
		config = ipamConfig{Type: "static"}
	default:
		config = ipamConfig{Type: "whereabouts", Range: ipam.Range, Exclude: ipam.Exclude}
	}
	for _, route := range ipam.Routes {
		config.Routes = append(config.Routes, ipamRoute(route))
	}
	return config
}
