// SPDX-License-Identifier: Apache-2.0

// Package machine describes the RDMA ports of a machine and what stands beside them: NUMA nodes, huge pages, GPUs.
//
// Read takes the description from the machine's /sys and /proc. `peercache-operator machine` prints it as JSON;
// `kubectl peercache discover` runs that on each machine and decides what to make of it.
package machine

import (
	"cmp"
	"net/netip"
)

// Machine is one machine.
type Machine struct {
	// Name is the name of the Kubernetes node. Read leaves it to the caller.
	Name  string     `json:"name"`
	Ports []Port     `json:"ports"`
	NUMA  []NUMANode `json:"numa"`
	GPUs  []GPU      `json:"gpus"`
	// RDMAExclusive is true where each network namespace sees only its own RDMA devices (`rdma system`).
	RDMAExclusive bool `json:"rdmaExclusive"`
}

// Port is one port of an RDMA device.
type Port struct {
	// Device is the name of the RDMA device, and Number the port on it.
	Device string `json:"device"`
	Number int    `json:"number"`
	// PCI is the address of the device. It is empty for a device in software.
	PCI string `json:"pci,omitempty"`
	// Card is vendor:device of the PCI device, for example 15b3:1021.
	Card string `json:"card,omitempty"`
	// NUMANode is negative where the machine does not say.
	NUMANode int `json:"numaNode"`
	// Virtual is true for a virtual function of another device of this machine.
	Virtual bool `json:"virtual,omitempty"`
	// Functions are the virtual functions of the device.
	Functions Functions `json:"functions,omitzero"`
	Up        bool      `json:"up"`
	// State is what the port says of itself, for example "DOWN (Disabled)".
	State     string    `json:"state"`
	LinkLayer LinkLayer `json:"linkLayer"`
	Gbps      int       `json:"gbps"`
	// Interface is the network interface of the port, or empty.
	Interface string `json:"interface,omitempty"`
	MTU       int    `json:"mtu,omitempty"`
	// Bond is the bond that the interface is or belongs to, or empty.
	Bond string `json:"bond,omitempty"`
	// DefaultRoute is true where the machine's default route leads through the interface.
	DefaultRoute bool `json:"defaultRoute,omitempty"`
	// Addresses are the IPv4 addresses of the interface, each with the length of its network.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Routes are the routes with a gateway through the interface, without the default route.
	Routes []Route `json:"routes,omitempty"`
}

// Functions counts the virtual functions (SR-IOV) of a device.
type Functions struct {
	// Made is how many there are, and Most how many there may be.
	Made int `json:"made"`
	Most int `json:"most"`
	// RDMA is how many of them have an RDMA device. One whose driver is not bound, or that a virtual machine has, has none.
	RDMA int `json:"rdma"`
}

// LinkLayer is what a port speaks.
type LinkLayer string

// The link layers, as the kernel names them.
const (
	Ethernet   LinkLayer = "Ethernet"
	InfiniBand LinkLayer = "InfiniBand"
)

// Name is the name of the port for people: its interface, or its device where it has none.
func (p Port) Name() string { return cmp.Or(p.Interface, p.Device) }

// Route is a way to another network.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway"`
}

// NUMANode is a NUMA node. Huge pages are those that are reserved, free or not.
type NUMANode struct {
	ID           int `json:"id"`
	HugePages2Mi int `json:"hugePages2Mi"`
	HugePages1Gi int `json:"hugePages1Gi"`
}

// GPU is a GPU. NUMANode is negative where the machine does not say.
type GPU struct {
	PCI      string `json:"pci"`
	NUMANode int    `json:"numaNode"`
}
