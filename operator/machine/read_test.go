// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/peercache/peercache/operator/machine/machinetest"
)

const hgx = "testdata/hgx-h100.txt"

// simulated reads the machine of testdata after the change.
func simulated(t *testing.T, change func(write func(file, content string))) *Machine {
	t.Helper()
	root := t.TempDir()
	machinetest.Unpack(t, hgx, root, 11)
	if change != nil {
		change(func(file, content string) {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	m, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func named(t *testing.T, m *Machine, device string) Port {
	t.Helper()
	for _, port := range m.Ports {
		if port.Device == device {
			return port
		}
	}
	t.Fatalf("no port of %s in %+v", device, m.Ports)
	return Port{}
}

func TestRead(t *testing.T) {
	m := simulated(t, nil)
	if len(m.Ports) != 10 || len(m.GPUs) != 8 || m.RDMAExclusive {
		t.Errorf("%d ports, %d GPUs, exclusive %t; want 10, 8, false", len(m.Ports), len(m.GPUs), m.RDMAExclusive)
	}
	rail := Port{
		Device: "mlx5_4", Number: 1, PCI: "0000:9b:00.0", Card: "15b3:1021", NUMANode: 1, Up: true, State: "ACTIVE",
		LinkLayer: Ethernet, Gbps: 400, Interface: "ens15np0", MTU: 9000,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.4.11/24")},
		Routes:    []Route{{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParseAddr("10.1.4.1")}},
	}
	if got := named(t, m, "mlx5_4"); !reflect.DeepEqual(got, rail) {
		t.Errorf("got %+v, want %+v", got, rail)
	}
	if got := named(t, m, "mlx5_8"); !got.DefaultRoute || got.Bond != "" || got.Gbps != 25 {
		t.Errorf("the port of management is %+v", got)
	}
	if got := named(t, m, "mlx5_bond_0"); got.DefaultRoute || got.Bond != "bond0" || got.Interface != "bond0" {
		t.Errorf("the port of storage is %+v", got)
	}
	if want := []NUMANode{{0, 0, 256}, {1, 0, 256}}; !reflect.DeepEqual(m.NUMA, want) {
		t.Errorf("NUMA nodes %+v, want %+v", m.NUMA, want)
	}
	if want := (GPU{"0000:9d:00.0", 1}); m.GPUs[4] != want {
		t.Errorf("the fifth GPU is %+v, want %+v", m.GPUs[4], want)
	}
}

func TestReadFunctions(t *testing.T) {
	root := t.TempDir()
	machinetest.Unpack(t, "testdata/sriov.txt", root, 11)
	// One function is a virtual machine's.
	if err := os.RemoveAll(filepath.Join(root, "sys/bus/pci/devices/0000:18:00.5/infiniband")); err != nil {
		t.Fatal(err)
	}
	m, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for device, want := range map[string]Functions{
		"mlx5_0": {Made: 4, Most: 16, RDMA: 3}, "mlx5_1": {Made: 4, Most: 16, RDMA: 4}, "mlx5_2": {Most: 8}, "mlx5_3": {},
	} {
		if got := named(t, m, device); got.Functions != want || got.Virtual != (device == "mlx5_3") {
			t.Errorf("%s has %+v, virtual %t; want %+v", device, got.Functions, got.Virtual, want)
		}
	}
	if len(m.Ports) != 11 {
		t.Errorf("%d ports, want 3 and 8 functions", len(m.Ports))
	}
}

func TestReadOtherMachines(t *testing.T) {
	const port = "sys/class/infiniband/mlx5_0/ports/1/"
	for name, test := range map[string]struct {
		change func(write func(file, content string))
		is     func(m *Machine, p Port) bool
	}{
		"a port that is down, without GIDs": {func(write func(file, content string)) {
			write(port+"state", "1: DOWN\n")
			write(port+"phys_state", "3: Disabled\n")
			for _, entry := range []string{"0", "1"} {
				write(port+"gid_attrs/ndevs/"+entry, "")
			}
		}, func(_ *Machine, p Port) bool {
			return !p.Up && p.State == "DOWN (Disabled)" && p.Interface == "ens11np0" && p.Addresses == nil
		}},
		"InfiniBand": {func(write func(file, content string)) { write(port+"link_layer", "InfiniBand\n") },
			func(_ *Machine, p Port) bool { return p.LinkLayer == InfiniBand }},
		"a virtual function": {func(write func(file, content string)) {
			write("sys/bus/pci/devices/0000:18:00.0/physfn/vendor", "0x15b3\n")
		}, func(_ *Machine, p Port) bool { return p.Virtual }},
		"no NUMA node": {func(write func(file, content string)) { write("sys/bus/pci/devices/0000:18:00.0/numa_node", "-1\n") },
			func(_ *Machine, p Port) bool { return p.NUMANode == -1 }},
		"the default route over a VLAN of a bridge": {func(write func(file, content string)) {
			write("sys/class/net/ens11np0/upper_br0/x", "")
			write("sys/class/net/br0/upper_br0.7/x", "")
			write("proc/net/route", "br0.7\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
		}, func(_ *Machine, p Port) bool { return p.DefaultRoute }},
		"an address in no network": {func(write func(file, content string)) { write("proc/net/route", "") },
			func(_ *Machine, p Port) bool { return p.Addresses[0] == netip.MustParsePrefix("10.1.0.11/32") }},
		"RDMA devices for one namespace each": {func(write func(file, content string)) {
			write("sys/module/ib_core/parameters/netns_mode", "N\n")
		}, func(m *Machine, _ Port) bool { return m.RDMAExclusive }},
	} {
		t.Run(name, func(t *testing.T) {
			m := simulated(t, test.change)
			if p := named(t, m, "mlx5_0"); !test.is(m, p) {
				t.Errorf("got %+v of %+v", p, m)
			}
		})
	}
}

func TestReadNothing(t *testing.T) {
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "name a folder with sys and proc") {
		t.Errorf("got %v", err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "sys/class/net"), 0o750); err != nil {
		t.Fatal(err)
	}
	if m, err := Read(root); err != nil || len(m.Ports) != 0 {
		t.Errorf("a machine without RDMA is %+v, %v", m, err)
	}
}
