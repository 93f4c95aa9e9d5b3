// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"slices"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/machine"
)

// sharedDomain is the domain of the resources of k8s-rdma-shared-dev-plugin.
const sharedDomain = "rdma/"

// hand names for each rail what hands out its port. It returns the ports as pods have them.
func (f *Found) hand(machines []chosen, k Kubernetes) []machine.Port {
	ports := machines[0].rails
	if f.Attachment == v1alpha1.AttachmentDRA {
		for i, p := range ports {
			f.Rails[i].Expression = f.Claims.expression(p)
		}
		return ports // the driver gives them with their addresses and routes
	}
	for i := range f.Rails {
		if rail := &f.Rails[i]; rail.RoCE || f.Attachment == v1alpha1.AttachmentSRIOV {
			rail.Network = rail.Name
		}
		f.Rails[i].Resource = sharedDomain + f.Rails[i].Name
	}
	if f.Attachment == v1alpha1.AttachmentSRIOV {
		inPods, notes := functionsOf(f.Rails, ports, machines, k)
		f.Notes = append(f.Notes, notes...)
		return inPods
	}
	var others []string
	for _, name := range k.offered(machines) {
		if strings.HasPrefix(name, sharedDomain) && !slices.ContainsFunc(f.Rails, func(r Rail) bool { return r.Resource == name }) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		f.Notes = append(f.Notes, look("a device plugin offers %s on these machines, and a machine must run it once only. "+
			"Use its resources in the rails and leave out provision.devicePlugin, or remove it first.", strings.Join(others, ", ")))
	}
	return ports
}

// consequences says what follows from the attachment and the layout.
func (f *Found) consequences(inPods []machine.Port, k Kubernetes) []Note {
	var notes []Note
	severalNodes := slices.ContainsFunc(inPods, func(p machine.Port) bool { return p.NUMANode != inPods[0].NUMANode })
	noSubnet := slices.ContainsFunc(inPods, func(p machine.Port) bool {
		return p.LinkLayer == machine.Ethernet && !subnet(p).IsValid()
	})
	switch f.Attachment {
	case v1alpha1.AttachmentSRIOV:
		if severalNodes && noSubnet && !f.PerNode {
			notes = append(notes, look("it is unknown whether rails of different NUMA nodes reach each other. Give their networks routes to "+
				"each other's subnets, or write layout: PerNode."))
		}
		if severalNodes && f.PerNode {
			notes = append(notes, look("a kubelet with topologyManagerPolicy single-numa-node refuses a pod with functions of two NUMA "+
				"nodes: see the remedies in docs/rails.md."))
		}
	case v1alpha1.AttachmentDRA:
		notes = append(notes, f.Claims.notes()...)
	}
	for _, what := range k.Unread {
		notes = append(notes, look("%s.", what))
	}
	return notes
}

// notes says what a claim does to others, and what the class or the driver leaves open.
func (c *Claims) notes() []Note {
	var notes []Note
	if !c.Shared && !c.Functions {
		notes = append(notes, look("a claim gives the whole port to one pod. Other pods that use these ports, such as engines with NCCL, "+
			"need --attachment SharedDevicePlugin."))
	}
	if c.Functions {
		notes = append(notes, fillIn("in the ResourceClaimTemplates: what driver %s needs to give a function an address "+
			"(devices.config: see its documentation). Without an address the port has no GID.", c.Driver))
	}
	if c.Narrow && !c.MakeClass {
		notes = append(notes, look("DeviceClass %s has selectors besides the driver's, which were not evaluated.", c.Class))
	}
	return notes
}
