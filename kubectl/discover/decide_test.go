// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/peercache/peercache/operator/machine"
	"github.com/peercache/peercache/operator/machine/machinetest"
)

// change changes the port of an RDMA device.
type change struct {
	machine, device string
	do              func(m *machine.Machine, p *machine.Port)
}

// simulated are three like machines as JSON, as peercache-operator prints it.
var simulated = map[string][]byte{}

// fleet returns three like machines after the changes.
func fleet(t *testing.T, changes ...change) []machine.Machine {
	t.Helper()
	var machines []machine.Machine
	for i, name := range []string{"gpu-a", "gpu-b", "gpu-c"} {
		if simulated[name] == nil {
			root := t.TempDir()
			machinetest.Unpack(t, "../../operator/machine/testdata/hgx-h100.txt", root, byte(11+i))
			var text bytes.Buffer
			if err := machine.Print(&text, root); err != nil {
				t.Fatal(err)
			}
			simulated[name] = text.Bytes()
		}
		var m machine.Machine
		if err := json.Unmarshal(simulated[name], &m); err != nil {
			t.Fatal(err)
		}
		m.Name = name
		for _, c := range changes {
			for j := 0; j < len(m.Ports); j++ { // a change may remove all
				if (c.machine == "" || c.machine == name) && (c.device == "" || c.device == m.Ports[j].Device) {
					c.do(&m, &m.Ports[j])
				}
			}
		}
		machines = append(machines, m)
	}
	return machines
}

func TestDecide(t *testing.T) {
	noRouter := change{"", "", func(_ *machine.Machine, p *machine.Port) { p.Routes = nil }}
	infiniBand := change{"", "", func(_ *machine.Machine, p *machine.Port) {
		p.LinkLayer, p.Addresses, p.Routes = machine.InfiniBand, nil, nil
	}}
	for name, test := range map[string]struct {
		changes []change
		options Options
		is      func(f *Found) bool
	}{
		"rails, and what is left out": {nil, Options{}, func(f *Found) bool {
			return len(f.Rails) == 8 && !f.PerNode && f.Memory == Memory{"256Gi", "1Gi"} && f.GPUs[0] == 4 && f.GPUs[1] == 4 &&
				listed(f.LeftOut) == "eno1np0 (mlx5_8): the machine's default route leads through it; bond0 (mlx5_bond_0): in the bond bond0"
		}},
		"the network of a rail": {nil, Options{}, func(f *Found) bool {
			r := f.Rails[5]
			return r.Interface == "ens16np0" && r.NUMANode == 1 && r.MTU == 9000 && r.Subnet.String() == "10.1.5.0/24" &&
				slices.Equal(r.Exclude, prefixes("10.1.5.1/32", "10.1.5.11/32", "10.1.5.12/32", "10.1.5.13/32")) &&
				len(r.Routes) == 1 && r.Routes[0].Gateway == netip.MustParseAddr("10.1.5.1")
		}},
		"subnets that no router joins": {[]change{noRouter}, Options{}, func(f *Found) bool {
			return f.PerNode && strings.Contains(f.Why, "no route to") && f.Rails[0].NUMANode == -1 && f.Memory == Memory{"512Gi", "1Gi"}
		}},
		"one NUMA node needs no router": {[]change{noRouter}, Options{Only: []string{"ens11np0", "mlx5_1"}}, func(f *Found) bool {
			return len(f.Rails) == 2 && !f.PerNode && f.Rails[1].Interface == "ens12np0" && len(f.Rails[1].Routes) == 0
		}},
		"a NUMA node that is not known": {[]change{{"", "mlx5_2", func(_ *machine.Machine, p *machine.Port) { p.NUMANode = -1 }}}, Options{},
			func(f *Found) bool { return f.PerNode && strings.Contains(f.Why, "ens13np0") }},
		"InfiniBand": {[]change{infiniBand}, Options{}, func(f *Found) bool {
			return len(f.Rails) == 8 && !f.PerNode && !f.Rails[0].RoCE
		}},
		"a bond that is asked for": {nil, Options{Only: []string{"bond0"}}, func(f *Found) bool {
			return len(f.Rails) == 1 && f.Rails[0].Device == "mlx5_bond_0"
		}},
		"a port that is asked to be left": {nil, Options{Without: []string{"mlx5_7"}}, func(f *Found) bool {
			return len(f.Rails) == 7 && strings.Contains(listed(f.LeftOut), "ens18np0 (mlx5_7): --without names it")
		}},
		"slower ports": {[]change{{"", "mlx5_8", func(_ *machine.Machine, p *machine.Port) { p.DefaultRoute = false }}}, Options{},
			func(f *Found) bool {
				return len(f.Rails) == 8 && strings.Contains(listed(f.LeftOut), "eno1np0 (mlx5_8): 25 Gb/s, and the rails have 400")
			}},
		"another card's port that is down": {[]change{{"", "mlx5_8", func(_ *machine.Machine, p *machine.Port) {
			p.DefaultRoute, p.Up, p.State = false, false, "DOWN (Polling)"
		}}}, Options{}, func(f *Found) bool { return strings.Contains(listed(f.LeftOut), "it is DOWN (Polling)") }},
		"small huge pages": {[]change{{"", "mlx5_0", func(m *machine.Machine, _ *machine.Port) {
			m.NUMA = []machine.NUMANode{{ID: 0, HugePages2Mi: 5000}, {ID: 1, HugePages2Mi: 9000}}
		}}}, Options{}, func(f *Found) bool { return f.Memory == Memory{"9Gi", "2Mi"} }},
		"no huge pages": {[]change{{"gpu-b", "mlx5_0", func(m *machine.Machine, _ *machine.Port) { m.NUMA = nil }}}, Options{},
			func(f *Found) bool { return f.Memory == Memory{"64Gi", "None"} }},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Decide(fleet(t, test.changes...), Kubernetes{}, test.options)
			if err != nil {
				t.Fatal(err)
			}
			if !test.is(found) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

func TestDecideRefuses(t *testing.T) {
	down := func(_ *machine.Machine, p *machine.Port) { p.Up, p.State = false, "DOWN (Disabled)" }
	for name, test := range map[string]struct {
		changes []change
		options Options
		says    []string
	}{
		"no device": {[]change{{"gpu-b", "mlx5_0", func(m *machine.Machine, _ *machine.Port) { m.Ports = m.Ports[:0:0] }}}, Options{},
			[]string{"gpu-b: no RDMA device: load the driver"}},
		"devices of one namespace": {[]change{{"gpu-b", "", func(m *machine.Machine, _ *machine.Port) { m.RDMAExclusive = true }}}, Options{},
			[]string{"gpu-b: its RDMA devices are in exclusive mode", "rdma system set netns shared"}},
		"a port that is down": {[]change{{"gpu-a", "mlx5_3", down}}, Options{},
			[]string{"gpu-a: ens14np0 (mlx5_3) is DOWN (Disabled): check cable and switch", "--without ens14np0"}},
		"all ports down": {[]change{{"", "", down}}, Options{Only: []string{"mlx5_0", "mlx5_1"}},
			[]string{"gpu-a: ens11np0 (mlx5_0) is DOWN", "gpu-c: ", "--without ens11np0,ens12np0"}},
		"two link layers": {[]change{{"", "mlx5_7", func(_ *machine.Machine, p *machine.Port) { p.LinkLayer = machine.InfiniBand }}}, Options{},
			[]string{"rails have one link layer", "InfiniBand ens18np0, Ethernet ens11np0,"}},
		"nothing left": {nil, Options{Only: []string{"eth0"}}, []string{"no port is left to carry pages", "--only does not name it"}},
		"no address": {[]change{{"", "mlx5_1", func(_ *machine.Machine, p *machine.Port) { p.Addresses = nil }}}, Options{},
			[]string{"ens12np0 (mlx5_1) has no IPv4 address", "--without ens12np0"}},
		"a subnet without room": {[]change{{"", "mlx5_1", func(_ *machine.Machine, p *machine.Port) {
			p.Addresses = prefixes("10.9.0.0/31")
		}}}, Options{}, []string{"has the address 10.9.0.0/31", "attachment HostNetwork"}},
		"no interface": {[]change{{"", "mlx5_1", func(_ *machine.Machine, p *machine.Port) { p.Interface = "" }}}, Options{},
			[]string{"mlx5_1 has no network interface"}},
		"machines that differ": {[]change{
			{"gpu-a", "mlx5_4", func(_ *machine.Machine, p *machine.Port) { p.NUMANode, p.MTU = 0, 1500 }},
			{"gpu-a", "mlx5_5", func(_ *machine.Machine, p *machine.Port) { p.Interface = "ens26np0" }},
		}, Options{}, []string{
			"machines differ from gpu-b", "gpu-a: ens15np0 is on NUMA node 0 instead of 1, ens15np0 is with MTU 1500 instead of 9000, " +
				"it has no rail ens16np0, it has a rail ens26np0 besides", "write a manifest for each kind",
		}},
		"a subnet of each machine": {[]change{{"gpu-c", "mlx5_0", func(_ *machine.Machine, p *machine.Port) {
			p.Addresses = prefixes("10.3.0.2/24")
		}}}, Options{}, []string{"gpu-c: ens11np0 is in subnet 10.3.0.0/24 instead of 10.1.0.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Decide(fleet(t, test.changes...), Kubernetes{}, test.options)
			if err == nil {
				t.Fatalf("found %+v", found)
			}
			for _, says := range test.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v\nmisses %q", err, says)
				}
			}
		})
	}
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestExclude(t *testing.T) {
	inSubnet := func(count, step int) []netip.Addr {
		var list []netip.Addr
		for i := range count {
			list = append(list, netip.AddrFrom4([4]byte{10, 1, 0, byte(i * step)}))
		}
		return list
	}
	for name, test := range map[string]struct {
		addresses []netip.Addr
		want      string
	}{
		"each by itself":   {inSubnet(3, 5), "[10.1.0.0/32 10.1.0.5/32 10.1.0.10/32]"},
		"many in one part": {inSubnet(60, 1), "[10.1.0.0/30 10.1.0.4/30 10.1.0.8/30 10.1.0.12/30 10.1.0.16/30 10.1.0.20/30 10.1.0.24/30 10.1.0.28/30 10.1.0.32/30 10.1.0.36/30 10.1.0.40/30 10.1.0.44/30 10.1.0.48/30 10.1.0.52/30 10.1.0.56/30]"},
		"everywhere":       {inSubnet(85, 3), "error"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := exclude(netip.MustParsePrefix("10.1.0.0/24"), test.addresses)
			text := fmt.Sprint(got)
			if err != nil {
				text = "error"
			}
			if text != test.want {
				t.Errorf("got %s, want %s (%v)", text, test.want, err)
			}
		})
	}
}
