// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/peercache/peercache/operator/machine"
)

// placeholderDomain is the domain of resources whose names are not known.
const placeholderDomain = "nvidia.com"

// withoutFunctions returns the ports that have no virtual function for a pod, each with its machine and what to do.
func withoutFunctions(machines []chosen) []string {
	var list []string
	for _, m := range machines {
		for _, p := range m.rails {
			switch f := p.Functions; {
			case f.Most == 0:
				list = append(list, fmt.Sprintf("%s: %s can have no virtual functions: turn SR-IOV on in firmware and BIOS", m.name, label(p)))
			case f.Made == 0:
				list = append(list, fmt.Sprintf("%s: %s has no virtual functions and may have %d: "+
					"write their number to /sys/class/net/%s/device/sriov_numvfs", m.name, label(p), f.Most, p.Interface))
			case f.RDMA == 0:
				list = append(list, fmt.Sprintf("%s: no virtual function of %s has an RDMA device: bind them to the port's driver", m.name, label(p)))
			}
		}
	}
	return list
}

// fewestFunctions is the number of virtual functions of the port that has the fewest.
func fewestFunctions(machines []chosen) int {
	var counts []int
	for _, m := range machines {
		for _, p := range m.rails {
			counts = append(counts, p.Functions.Made)
		}
	}
	return slices.Min(counts)
}

// functionResources returns the resources of every machine that something says to be virtual functions with RDMA devices.
func functionResources(machines []chosen, k Kubernetes) []string {
	return slices.DeleteFunc(k.offered(machines), func(name string) bool {
		inPool := slices.IndexFunc(k.Pools, func(p Pool) bool { return p.is(name) })
		if inPool >= 0 {
			return !k.Pools[inPool].RDMA
		}
		return !slices.ContainsFunc(k.Networks, func(n Network) bool { return n.Resource == name })
	})
}

// withoutRDMA returns the pools that hand out functions of rails without their RDMA devices.
func withoutRDMA(machines []chosen, k Kubernetes) []Pool {
	return slices.DeleteFunc(slices.Clone(k.Pools), func(pool Pool) bool {
		return pool.RDMA || !slices.ContainsFunc(machines[0].rails, pool.has)
	})
}

// has is true where the pool's functions are those of the port.
func (p Pool) has(port machine.Port) bool {
	return slices.Contains(p.Ports, port.Interface) || slices.Contains(p.Ports, port.PCI)
}

// is true where the pool has the extended resource.
func (p Pool) is(resource string) bool {
	return p.Resource == resource || strings.HasSuffix(resource, "/"+p.Resource)
}

// resourceOf returns the resource that has the functions of a port, or "": the pool that names the port, else the network whose
// addresses are of the port's subnet.
func resourceOf(p machine.Port, resources []string, k Kubernetes) string {
	for _, resource := range resources {
		if slices.ContainsFunc(k.Pools, func(pool Pool) bool {
			return pool.is(resource) && pool.has(p)
		}) {
			return resource
		}
	}
	for _, network := range k.Networks {
		if slices.Contains(resources, network.Resource) && network.serves(p) {
			return network.Resource
		}
	}
	return ""
}

// serves is true where the network's addresses are of the port's subnet.
func (n Network) serves(p machine.Port) bool {
	return n.Range.IsValid() && subnet(p).IsValid() && n.Range.Overlaps(subnet(p))
}

// networkOf returns the network of a port that attaches functions of a resource: the one of the port's subnet, else the first.
func networkOf(p machine.Port, resource string, k Kubernetes) (network Network, others []string) {
	var all []Network
	for _, n := range k.Networks {
		if n.Resource == resource {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return Network{}, nil
	}
	at := max(0, slices.IndexFunc(all, func(n Network) bool { return n.serves(p) }))
	for i, n := range all {
		if i != at {
			others = append(others, n.Name)
		}
	}
	return all[at], others
}

// functionsOf names the resource and the network of each rail, and says what is not known. The ports that it returns have the
// subnets and routes of the networks that exist: pods have those instead of the machine's.
func functionsOf(rails []Rail, ports []machine.Port, machines []chosen, k Kubernetes) ([]machine.Port, []Note) {
	resources := functionResources(machines, k)
	inPods := slices.Clone(ports)
	var notes []Note
	var unknown, noNetwork []string
	taken := map[string]string{}
	for i := range rails {
		rail, p := &rails[i], ports[i]
		rail.Resource = resourceOf(p, resources, k)
		if rail.Resource == "" {
			rail.Resource, rail.Placeholder = placeholderDomain+"/"+rail.Name, true
			unknown = append(unknown, rail.Name)
		} else if other := taken[rail.Resource]; other != "" {
			notes = append(notes, look("%s and %s share resource %s, so a pod may get both functions from one port: "+
				"configure a resource for each port.", other, rail.Name, rail.Resource))
		}
		taken[rail.Resource] = rail.Name
		network, others := networkOf(p, rail.Resource, k)
		switch {
		case network.Name != "":
			rail.Network, rail.Exists = network.Name, true
			inPods[i].Addresses, inPods[i].Routes, inPods[i].Interface = nil, network.Routes, "network "+network.Name
			if network.Range.IsValid() {
				inPods[i].Addresses = append(inPods[i].Addresses, network.Range)
			}
			if len(others) > 0 {
				notes = append(notes, look("these networks attach functions of %s, too: %s.", rail.Resource, strings.Join(others, ", ")))
			}
		case !subnet(p).IsValid() || checkAddress(p) != nil:
			rail.Exists = true // by hand
			noNetwork = append(noNetwork, rail.Name)
		}
	}
	if len(unknown) > 0 {
		notes = append(notes, fillIn("sriov.resourceName of %s: the resource that hands out the functions of its port. %s",
			strings.Join(unknown, ", "), candidates(machines, k)))
	}
	if len(noNetwork) > 0 {
		notes = append(notes, fillIn("network.name of %s: a NetworkAttachmentDefinition for the functions of its port, as in "+
			"docs/install/sriov.md. The port has no IPv4 address in a subnet with room for pods. InfiniBand takes the CNI plugin ib-sriov.", strings.Join(noNetwork, ", ")))
	}
	return inPods, notes
}

// candidates says where to find the names of resources.
func candidates(machines []chosen, k Kubernetes) string {
	if !k.Asked {
		return "No API server was asked: see `kubectl get node " + machines[0].name + " -o jsonpath='{.status.allocatable}'`."
	}
	const none = "configure the SR-IOV network device plugin (docs/install/sriov.md)."
	if names := k.offered(machines); len(names) > 0 {
		return "These machines offer " + strings.Join(names, ", ") + ". If it is none of these, " + none
	}
	return "These machines offer none: " + none
}

// PluginConfig is a configuration of the SR-IOV network device plugin for the rails, or "" where it has one, or where a resource
// is known.
func PluginConfig(found *Found, k Kubernetes) (string, error) {
	type selectors struct {
		PFNames []string `json:"pfNames"`
		IsRDMA  bool     `json:"isRdma"`
	}
	type resource struct {
		ResourceName   string      `json:"resourceName"`
		ResourcePrefix string      `json:"resourcePrefix"`
		Selectors      []selectors `json:"selectors"`
	}
	known := slices.ContainsFunc(found.Rails, func(r Rail) bool { return !r.Placeholder })
	if known || len(k.Pools) > 0 {
		return "", nil
	}
	var list []resource
	for _, rail := range found.Rails {
		list = append(list, resource{rail.Name, placeholderDomain, []selectors{{[]string{rail.Interface}, true}}})
	}
	text, err := json.MarshalIndent(map[string]any{"resourceList": list}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the configuration of the SR-IOV network device plugin: %w", err)
	}
	return string(text) + "\n", nil
}
