// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/peercache/peercache/operator/machine"
)

// Kubernetes is what the API server says of the machines, and of what hands out their ports. The zero value says nothing.
type Kubernetes struct {
	// Asked is false where no API server was asked.
	Asked bool
	// Allocatable counts the extended resources of each machine.
	Allocatable map[string]map[string]int64
	// Networks are those that attach virtual functions.
	Networks []Network
	Pools    []Pool
	// Slices and Classes are those of all drivers of dynamic resource allocation.
	Slices  []resourcev1.ResourceSlice
	Classes []resourcev1.DeviceClass
	// Unread says what could not be read, and why.
	Unread []string
}

// Network is a NetworkAttachmentDefinition that attaches virtual functions.
type Network struct {
	// Name is namespace/name.
	Name string
	// Resource is what its annotation names.
	Resource string
	// Range is where its addresses come from. It is invalid where the network does not say.
	Range  netip.Prefix
	Routes []machine.Route
}

// Pool is a resource of the SR-IOV network device plugin, as its configuration has it.
type Pool struct {
	// Resource is the name, without its domain where the configuration leaves that to the plug-in.
	Resource string
	// Ports are the interfaces or PCI addresses of the ports whose functions it has.
	Ports []string
	// RDMA is true where pods get the functions' RDMA devices.
	RDMA bool
}

// functionTypes are the CNI plug-ins that attach a virtual function.
var functionTypes = []string{"sriov", "ib-sriov", "host-device"}

// cni is the part of the configuration of a CNI plug-in that matters here: of sriov, with the IPAM plug-ins whereabouts,
// host-local and static.
type cni struct {
	Type    string `json:"type"`
	Plugins []cni  `json:"plugins"`
	IPAM    struct {
		Range    string                      `json:"range"`
		Subnet   string                      `json:"subnet"`
		IPRanges []struct{ Range string }    `json:"ipRanges"`
		Ranges   [][]struct{ Subnet string } `json:"ranges"`
		Routes   []struct {
			Destination string `json:"dst"`
			Gateway     string `json:"gw"`
		} `json:"routes"`
	} `json:"ipam"`
}

// ParseNetwork reads the configuration of a NetworkAttachmentDefinition. It returns false where that attaches no functions.
func ParseNetwork(name, resource, config string) (Network, bool) {
	var c cni
	if resource == "" || json.Unmarshal([]byte(config), &c) != nil {
		return Network{}, false
	}
	if len(c.Plugins) > 0 {
		c = c.Plugins[0]
	}
	network := Network{Name: name, Resource: resource}
	text := cmp.Or(c.IPAM.Range, c.IPAM.Subnet)
	if text == "" && len(c.IPAM.IPRanges) > 0 {
		text = c.IPAM.IPRanges[0].Range
	}
	if text == "" && len(c.IPAM.Ranges) > 0 && len(c.IPAM.Ranges[0]) > 0 {
		text = c.IPAM.Ranges[0][0].Subnet
	}
	if _, after, found := strings.Cut(text, "-"); found { // 192.168.10.10-192.168.10.20/24
		text = after
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		network.Range = prefix.Masked()
	}
	for _, r := range c.IPAM.Routes {
		destination, errDestination := netip.ParsePrefix(r.Destination)
		gateway, errGateway := netip.ParseAddr(r.Gateway)
		if errDestination == nil && errGateway == nil {
			network.Routes = append(network.Routes, machine.Route{Destination: destination, Gateway: gateway})
		}
	}
	return network, slices.Contains(functionTypes, c.Type)
}

// ports are selectors of the SR-IOV network device plugin, and of the operator that configures it.
type ports struct {
	PFNames     []string `json:"pfNames"`
	RootDevices []string `json:"rootDevices"`
	IsRDMA      bool     `json:"isRdma"`
}

func (p ports) named() []string {
	var list []string
	for _, name := range slices.Concat(p.PFNames, p.RootDevices) {
		name, _, _ = strings.Cut(name, "#") // ens1f0np0#0-3: some functions of the port
		list = append(list, name)
	}
	return list
}

// ParsePluginConfig reads the configuration of the SR-IOV network device plugin.
func ParsePluginConfig(text string) ([]Pool, error) {
	var config struct {
		ResourceList []struct {
			ResourceName   string          `json:"resourceName"`
			ResourcePrefix string          `json:"resourcePrefix"`
			Selectors      json.RawMessage `json:"selectors"`
		} `json:"resourceList"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("reading the configuration of the SR-IOV network device plugin: %w: correct it", err)
	}
	var pools []Pool
	for _, r := range config.ResourceList {
		var several []ports
		if json.Unmarshal(r.Selectors, &several) != nil {
			several = make([]ports, 1)
			if err := json.Unmarshal(r.Selectors, &several[0]); err != nil {
				return nil, fmt.Errorf("reading the selectors of resource %s of the SR-IOV network device plugin: %w: correct them",
					r.ResourceName, err)
			}
		}
		pool := Pool{Resource: strings.TrimPrefix(r.ResourcePrefix+"/"+r.ResourceName, "/"), RDMA: true}
		for _, p := range several {
			pool.Ports, pool.RDMA = append(pool.Ports, p.named()...), pool.RDMA && p.IsRDMA
		}
		pools = append(pools, pool)
	}
	return pools, nil
}

// ParsePolicy reads the spec of a SriovNetworkNodePolicy of the SR-IOV network operator, as JSON.
func ParsePolicy(spec []byte) (Pool, error) {
	var policy struct {
		ResourceName string `json:"resourceName"`
		NICSelector  ports  `json:"nicSelector"`
		IsRDMA       bool   `json:"isRdma"`
	}
	if err := json.Unmarshal(spec, &policy); err != nil {
		return Pool{}, fmt.Errorf("reading a SriovNetworkNodePolicy: %w", err)
	}
	return Pool{Resource: policy.ResourceName, Ports: policy.NICSelector.named(), RDMA: policy.IsRDMA}, nil
}

// offered returns the extended resources of which every machine has one, sorted.
func (k Kubernetes) offered(machines []chosen) []string {
	var names []string
	for name := range k.Allocatable[machines[0].name] {
		if !slices.ContainsFunc(machines, func(m chosen) bool { return k.Allocatable[m.name][name] == 0 }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// drivers returns the drivers of dynamic resource allocation that publish devices, sorted.
func (k Kubernetes) drivers() []string {
	drivers := map[string]bool{}
	for i := range k.Slices {
		drivers[k.Slices[i].Spec.Driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}
