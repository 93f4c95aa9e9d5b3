// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/machine"
)

// Found is what the machines have in common.
type Found struct {
	// Machines are their names.
	Machines []string
	Rails    []Rail
	// Attachment is that of all rails. AttachmentWhy is empty where nothing else is possible.
	Attachment    v1alpha1.RailAttachment
	AttachmentWhy string
	// Claims are the devices of DRA, nil with another attachment.
	Claims *Claims
	Notes  []Note
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
	// RoCE is false for InfiniBand, whose packets need no address.
	RoCE bool
	// Subnet is that of the port, or invalid. Exclude and Routes are those of the network of pods.
	Subnet  netip.Prefix
	Exclude []netip.Prefix
	Routes  []machine.Route
	// Resource is the extended resource that pods request; "" with DRA, where Expression chooses the device.
	Resource, Expression string
	// Placeholder is true where the resource's name is not known.
	Placeholder bool
	// Network is the name of the network, "" where the pod needs none. Exists is true where it is not made for the rail.
	Network string
	Exists  bool
}

// Decide finds the rails. An error names the machine, what is wrong and what to do.
func Decide(machines []machine.Machine, k Kubernetes, options Options) (*Found, error) {
	if len(machines) == 0 {
		return nil, errors.New("no machine was read")
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
	how, err := attach(all, k, options)
	if err != nil {
		return nil, err
	}
	if err := addressed(all, how.by); err != nil {
		return nil, err
	}
	found.Attachment, found.AttachmentWhy, found.Claims, found.Notes = how.by, how.why, how.claims, how.notes
	if how.by == v1alpha1.AttachmentSRIOV { // these are what pods get
		found.LeftOut = slices.DeleteFunc(found.LeftOut, func(l LeftOut) bool { return l.Why == virtualFunction })
	}
	for i, p := range all[0].rails {
		found.Rails = append(found.Rails, makeRail(fmt.Sprintf("rail%d", i), p))
	}
	inPods := found.hand(all, k)
	found.PerNode, found.Why = perNode(inPods)
	for i, p := range inPods {
		if found.PerNode {
			found.Rails[i].NUMANode = -1
		} else {
			found.Rails[i].Routes = routesBetween(p, inPods)
		}
		if err := found.Rails[i].keepFree(all); err != nil {
			return nil, err
		}
	}
	found.Notes = append(found.Notes, found.consequences(inPods, k)...)
	found.Memory = memoryOf(machines, found.Rails)
	found.GPUs = gpusOf(machines)
	return found, nil
}

// perNode says whether one member has to have all rails, and why.
func perNode(ports []machine.Port) (bool, string) {
	for _, p := range ports {
		if p.NUMANode < 0 {
			return true, "the machine does not report the NUMA node of " + p.Interface
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

// makeRail is a rail of the port.
func makeRail(name string, p machine.Port) Rail {
	return Rail{
		Name: name, Interface: p.Interface, Device: p.Device, NUMANode: p.NUMANode, Gbps: p.Gbps, MTU: p.MTU,
		RoCE: p.LinkLayer == machine.Ethernet, Subnet: subnet(p),
	}
}

// keepFree excludes the addresses of all machines and routers from the rail's network, where that is to be made.
func (r *Rail) keepFree(machines []chosen) error {
	if r.Network == "" || r.Exists {
		return nil
	}
	var taken []netip.Addr
	for _, m := range machines {
		for _, same := range m.rails {
			if same.Interface != r.Interface {
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
	taken = slices.DeleteFunc(taken, func(a netip.Addr) bool { return !r.Subnet.Contains(a) })
	var err error
	if r.Exclude, err = exclude(r.Subnet, taken); err != nil {
		return fmt.Errorf("%s: %w", r.Interface, err)
	}
	return nil
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
