// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/machine"
)

// Options choose by hand. Lists are of interfaces or RDMA devices.
type Options struct {
	// Only takes these ports and no other, whatever else they carry.
	Only []string
	// Without leaves these ports out.
	Without []string
	// Attachment is how ports reach pods: SharedDevicePlugin, SRIOV, DRA, or "" to choose.
	Attachment v1alpha1.RailAttachment
}

// LeftOut is a port that is no rail.
type LeftOut struct{ Port, Why string }

// virtualFunction is why virtual functions are left out. They are many: one line is for all of them.
const virtualFunction = "rails with attachment SRIOV use them"

func names(list []string, p machine.Port) bool {
	return slices.Contains(list, p.Interface) || slices.Contains(list, p.Device)
}

// carriesOther returns why a port carries no pages, or "". Ports that --only names are taken whatever they carry.
func (o Options) carriesOther(p machine.Port) string {
	switch {
	case names(o.Without, p):
		return "--without names it"
	case len(o.Only) > 0 && !names(o.Only, p):
		return "--only does not name it"
	case len(o.Only) > 0:
		return ""
	case p.PCI == "":
		return "a device in software"
	case p.Virtual:
		return virtualFunction
	case p.Bond != "":
		return "in the bond " + p.Bond
	case p.DefaultRoute:
		return "the machine's default route leads through it"
	default:
		return ""
	}
}

// choose returns the ports of a machine that are rails, by NUMA node and PCI address.
func choose(m machine.Machine, options Options) (rails []machine.Port, leftOut []LeftOut, err error) {
	switch {
	case len(m.Ports) == 0:
		return nil, nil, errors.New("no RDMA device: load the driver of the network card (`rdma link` shows it then), or leave the machine out")
	case m.RDMAExclusive:
		return nil, nil, errors.New("its RDMA devices are in exclusive mode, so the ports of pods have no address: " +
			"`rdma system set netns shared` before any network namespace is made")
	}
	leave := func(p machine.Port, why string) { leftOut = append(leftOut, LeftOut{label(p), why}) }
	var down []machine.Port
	functions := 0
	for _, p := range m.Ports {
		switch why := options.carriesOther(p); {
		case why == virtualFunction:
			functions++
		case why != "":
			leave(p, why)
		case !p.Up:
			down = append(down, p)
		default:
			rails = append(rails, p)
		}
	}
	if functions > 0 {
		leftOut = append(leftOut, LeftOut{fmt.Sprintf("%d virtual functions", functions), virtualFunction})
	}
	if len(rails) == 0 && len(down) == 0 {
		return nil, nil, fmt.Errorf("no port is left to carry pages: %s; select ports anyway by --only", listed(leftOut))
	}
	fastest := 0
	for _, p := range rails {
		fastest = max(fastest, p.Gbps)
	}
	rails = slices.DeleteFunc(rails, func(p machine.Port) bool {
		slow := p.Gbps < fastest && len(options.Only) == 0
		if slow {
			leave(p, fmt.Sprintf("%d Gb/s, and the rails have %d", p.Gbps, fastest))
		}
		return slow
	})
	for _, p := range down {
		// A port that is down counts where it may have been meant: on a card such as the rails have.
		if len(rails) == 0 || slices.ContainsFunc(rails, func(r machine.Port) bool { return r.Card == p.Card }) {
			return nil, nil, downError(down)
		}
		leave(p, "it is "+p.State)
	}
	if err := check(rails); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(rails, func(a, b machine.Port) int {
		return cmp.Or(cmp.Compare(a.NUMANode, b.NUMANode), cmp.Compare(a.PCI, b.PCI), cmp.Compare(a.Number, b.Number))
	})
	return rails, leftOut, nil
}

func downError(down []machine.Port) error {
	var said, ports []string
	for _, p := range down {
		said, ports = append(said, label(p)+" is "+p.State), append(ports, p.Name())
	}
	return fmt.Errorf("%s: check cable and switch, and set the interface up, or add --without %s",
		strings.Join(said, ", "), strings.Join(ports, ","))
}

// check returns what keeps the ports from being rails together.
func check(rails []machine.Port) error {
	layers := map[machine.LinkLayer][]string{}
	for _, p := range rails {
		layers[p.LinkLayer] = append(layers[p.LinkLayer], p.Name())
	}
	if len(layers) > 1 {
		return fmt.Errorf("rails have one link layer, and these ports have two: InfiniBand %s, Ethernet %s: add --without for one of them",
			strings.Join(layers[machine.InfiniBand], ","), strings.Join(layers[machine.Ethernet], ","))
	}
	for _, p := range rails {
		if p.Interface == "" {
			return fmt.Errorf("%s has no network interface, by which the device plugin finds it: load the driver (InfiniBand: ib_ipoib)",
				label(p))
		}
	}
	return nil
}

// checkAddress returns what keeps pods from having addresses in the port's subnet.
func checkAddress(p machine.Port) error {
	switch {
	case p.LinkLayer != machine.Ethernet:
	case len(p.Addresses) == 0:
		return fmt.Errorf("%s has no IPv4 address: give it one in a subnet of its own, as in docs/rdma.md, or add --without %s",
			label(p), p.Name())
	case p.Addresses[0].Bits() > maxSubnetBits:
		return fmt.Errorf("%s has the address %s: a subnet of that size has no addresses for pods; use a larger one, or attachment "+
			"HostNetwork", label(p), p.Addresses[0])
	}
	return nil
}

// label is the port as people know it: interface and device.
func label(p machine.Port) string {
	if p.Interface == "" || p.Interface == p.Device {
		return p.Device
	}
	return p.Interface + " (" + p.Device + ")"
}

func listed(leftOut []LeftOut) string {
	var parts []string
	for _, port := range leftOut {
		parts = append(parts, port.Port+": "+port.Why)
	}
	return strings.Join(parts, "; ")
}
