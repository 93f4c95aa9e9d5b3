// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// route is a line of /proc/net/route: a route of the main table.
type route struct {
	device      string
	destination netip.Prefix
	gateway     netip.Addr // invalid for a network that the interface is in
}

// parseRoutes reads /proc/net/route, whose addresses are hexadecimal numbers in the byte order of the machine. Linux has no
// big-endian machine with such ports.
func parseRoutes(text string) []route {
	var routes []route
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		destination, errDestination := strconv.ParseUint(fields[1], 16, 32)
		gateway, errGateway := strconv.ParseUint(fields[2], 16, 32)
		mask, errMask := strconv.ParseUint(fields[7], 16, 32)
		if errDestination != nil || errGateway != nil || errMask != nil {
			continue // the heading
		}
		r := route{
			device:      fields[0],
			destination: netip.PrefixFrom(address(destination), bits.OnesCount64(mask)),
		}
		if gateway != 0 {
			r.gateway = address(gateway)
		}
		routes = append(routes, r)
	}
	return routes
}

func address(number uint64) netip.Addr {
	var bytes [4]byte
	binary.LittleEndian.PutUint32(bytes[:], uint32(number)) //nolint:gosec // parsed as 32 bits
	return netip.AddrFrom4(bytes)
}

// addInterface reads what the port's interface says, and what leads through it.
func (s source) addInterface(p *Port, routes []route) {
	if p.Interface == "" {
		return
	}
	p.MTU = s.number("class/net/"+p.Interface+"/mtu", 0)
	above := s.above(p.Interface)
	for _, name := range above {
		if s.exists("class/net/" + name + "/bonding") {
			p.Bond = name
		}
	}
	var networks []netip.Prefix
	for _, r := range routes {
		switch {
		case r.destination.Bits() == 0:
			p.DefaultRoute = p.DefaultRoute || slices.Contains(above, r.device)
		case r.device != p.Interface:
		case r.gateway.IsValid():
			p.Routes = append(p.Routes, Route{r.destination, r.gateway})
		default:
			networks = append(networks, r.destination)
		}
	}
	p.Addresses = s.addresses(*p, networks)
}

// above returns an interface and all interfaces on top of it: bonds, bridges, VLANs.
func (s source) above(name string) []string {
	all := []string{name}
	for i := 0; i < len(all); i++ {
		entries, _ := s.list("class/net/" + all[i])
		for _, entry := range entries {
			if upper, found := strings.CutPrefix(entry, "upper_"); found && !slices.Contains(all, upper) {
				all = append(all, upper)
			}
		}
	}
	return all
}

// addresses returns the IPv4 addresses of a RoCE port, each with the length of the network that it is in. Each address is a
// GID of the port, once for every version of RoCE.
func (s source) addresses(p Port, networks []netip.Prefix) []netip.Prefix {
	folder := "class/infiniband/" + p.Device + "/ports/" + strconv.Itoa(p.Number)
	entries, _ := s.list(folder + "/gids")
	var found []netip.Prefix
	for _, entry := range entries {
		gid, err := netip.ParseAddr(s.text(folder + "/gids/" + entry))
		if err != nil || !gid.Is4In6() || s.text(folder+"/gid_attrs/ndevs/"+entry) != p.Interface {
			continue
		}
		prefix := netip.PrefixFrom(gid.Unmap(), 32)
		for _, network := range networks {
			if network.Contains(prefix.Addr()) {
				prefix = netip.PrefixFrom(prefix.Addr(), network.Bits())
			}
		}
		if !slices.Contains(found, prefix) {
			found = append(found, prefix)
		}
	}
	return found
}
