// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/peercache/peercache/operator/machine"
)

const (
	// maxSubnetBits is the smallest subnet of a rail: eight addresses.
	maxSubnetBits = 29
	// maxExcluded is what spec.provision.networks[].ipam.exclude may hold.
	maxExcluded = 16
)

// subnet is the subnet of a RoCE port; the zero value of an InfiniBand port, whose packets need no address.
func subnet(p machine.Port) netip.Prefix {
	if p.LinkLayer != machine.Ethernet || len(p.Addresses) == 0 {
		return netip.Prefix{}
	}
	return p.Addresses[0].Masked()
}

// reaches is true where packets of one port get to the subnet of the other: by the switch, or by a router.
func reaches(from, to machine.Port) bool {
	other := subnet(to)
	return !other.IsValid() || subnet(from) == other || slices.ContainsFunc(from.Routes, func(r machine.Route) bool {
		return leads(r, other)
	})
}

func leads(r machine.Route, to netip.Prefix) bool {
	return r.Destination.Bits() <= to.Bits() && r.Destination.Contains(to.Addr())
}

// exclude covers the addresses by at most maxExcluded networks, the smallest of one size that do.
func exclude(subnet netip.Prefix, addresses []netip.Addr) ([]netip.Prefix, error) {
	for bits := subnet.Addr().BitLen(); bits > subnet.Bits(); bits-- {
		var covers []netip.Prefix
		for _, address := range addresses {
			cover := netip.PrefixFrom(address, bits).Masked()
			if !slices.Contains(covers, cover) {
				covers = append(covers, cover)
			}
		}
		if all := 1 << min(bits-subnet.Bits(), 30); len(covers) <= maxExcluded && len(covers) < all {
			slices.SortFunc(covers, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
			return covers, nil
		}
	}
	return nil, fmt.Errorf("addresses of machines are all over %s: give the rails a larger subnet, and machines a part of it", subnet)
}
