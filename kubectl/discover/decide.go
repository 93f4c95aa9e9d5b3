// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/peercache/peercache/operator/machine"
)

// Found is what the machines have in common.
type Found struct {
	// Machines are their names.
	Machines []string
	Rails    []Rail
	// PerNode is true where one member of each machine has all rails: their NUMA nodes are not known, or rails of different
	// NUMA nodes do not reach each other. Why says which.
	PerNode bool
	Why     string
	Memory  Memory
	// GPUs is the number of GPUs beside the rails, by NUMA node, of a machine that has the fewest.
	GPUs map[int]int
	// LeftOut are the ports of the first machine that are no rails.
	LeftOut []LeftOut
}

// Rail is a port that carries pages.
type Rail struct {
	Name      string
	Interface string
	Device    string
	// NUMANode is negative where a member has all rails.
	NUMANode int
	Gbps     int
	MTU      int
	// Subnet is invalid for InfiniBand, which needs no network. Exclude and Routes are those of the network of pods.
	Subnet  netip.Prefix
	Exclude []netip.Prefix
	Routes  []machine.Route
}

// RoCE is true where the rail has a network.
func (r Rail) RoCE() bool { return r.Subnet.IsValid() }

// Decide finds the rails. An error names the machine, what is wrong and what to do.
func Decide(machines []machine.Machine, options Options) (*Found, error) {
	if len(machines) == 0 {
		return nil, errors.New("no machine was looked at")
	}
	found := &Found{}
	var all []chosen
	var failures []error
	for _, m := range machines {
		rails, leftOut, err := choose(m, options)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", m.Name, err))
			continue
		}
		found.Machines = append(found.Machines, m.Name)
		all = append(all, chosen{m.Name, rails})
		if len(all) == 1 {
			found.LeftOut = leftOut
		}
	}
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	if err := compare(all); err != nil {
		return nil, err
	}
	ports := all[0].rails
	found.PerNode, found.Why = perNode(ports)
	for i, p := range ports {
		rail, err := makeRail(fmt.Sprintf("rail%d", i), p, all)
		if err != nil {
			return nil, err
		}
		if found.PerNode {
			rail.NUMANode, rail.Routes = -1, nil
		} else {
			rail.Routes = routesBetween(p, ports)
		}
		found.Rails = append(found.Rails, rail)
	}
	found.Memory = memoryOf(machines, found.Rails)
	found.GPUs = gpusOf(machines)
	return found, nil
}

// perNode says whether one member has to have all rails, and why.
func perNode(ports []machine.Port) (bool, string) {
	for _, p := range ports {
		if p.NUMANode < 0 {
			return true, "the machine does not say on which NUMA node " + p.Interface + " is"
		}
	}
	for _, from := range ports {
		for _, to := range ports {
			if from.NUMANode != to.NUMANode && !reaches(from, to) {
				return true, fmt.Sprintf("%s has no route to %s of the other NUMA node, %s: reads between groups would go by TCP",
					from.Interface, to.Interface, subnet(to))
			}
		}
	}
	return false, ""
}

// makeRail joins what all machines say of a port.
func makeRail(name string, p machine.Port, machines []chosen) (Rail, error) {
	rail := Rail{
		Name: name, Interface: p.Interface, Device: p.Device, NUMANode: p.NUMANode, Gbps: p.Gbps, MTU: p.MTU, Subnet: subnet(p),
	}
	if !rail.RoCE() {
		return rail, nil
	}
	var taken []netip.Addr
	for _, m := range machines {
		for _, same := range m.rails {
			if same.Interface != p.Interface {
				continue
			}
			for _, address := range same.Addresses {
				taken = append(taken, address.Addr())
			}
			for _, route := range same.Routes {
				taken = append(taken, route.Gateway)
			}
		}
	}
	taken = slices.DeleteFunc(taken, func(a netip.Addr) bool { return !rail.Subnet.Contains(a) })
	var err error
	if rail.Exclude, err = exclude(rail.Subnet, taken); err != nil {
		return rail, fmt.Errorf("%s: %w", p.Interface, err)
	}
	return rail, nil
}

// routesBetween returns the machine's routes from a port to rails of other NUMA nodes.
func routesBetween(from machine.Port, ports []machine.Port) []machine.Route {
	var routes []machine.Route
	for _, r := range from.Routes {
		if slices.ContainsFunc(ports, func(to machine.Port) bool {
			return to.NUMANode != from.NUMANode && subnet(to) != subnet(from) && subnet(to).IsValid() && leads(r, subnet(to))
		}) {
			routes = append(routes, r)
		}
	}
	return routes
}

func gpusOf(machines []machine.Machine) map[int]int {
	var fewest map[int]int
	for _, m := range machines {
		counts := map[int]int{}
		for _, gpu := range m.GPUs {
			counts[gpu.NUMANode]++
		}
		if fewest == nil || total(counts) < total(fewest) {
			fewest = counts
		}
	}
	return fewest
}

func total(counts map[int]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
