// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/machine"
)

var twoPorts = Options{Only: []string{"ens11np0", "ens15np0"}} // rail0 on NUMA node 0, rail1 on 1

// withFunctions gives every port virtual functions.
func withFunctions(f machine.Functions) change {
	return change{"", "", func(_ *machine.Machine, p *machine.Port) { p.Functions = f }}
}

var four = withFunctions(machine.Functions{Made: 4, Most: 16, RDMA: 4})

// offer has every machine offer four of each resource.
func offer(resources ...string) Kubernetes {
	k := Kubernetes{Asked: true, Allocatable: map[string]map[string]int64{}}
	for _, m := range []string{"gpu-a", "gpu-b", "gpu-c"} {
		k.Allocatable[m] = map[string]int64{}
		for _, name := range resources {
			k.Allocatable[m][name] = 4
		}
	}
	return k
}

func (k Kubernetes) with(change func(*Kubernetes)) Kubernetes {
	change(&k)
	return k
}

// pools names a resource for each of the two ports.
func pools(k *Kubernetes) {
	k.Pools = []Pool{{"x.io/a", []string{"ens11np0"}, true}, {"b", []string{"0000:9b:00.0"}, true}}
}

// publish has a driver publish a device of each machine for each value of an attribute.
func publish(driver, attribute string, values ...string) func(*Kubernetes) {
	return func(k *Kubernetes) {
		for _, m := range []string{"gpu-a", "gpu-b", "gpu-c"} {
			slice := resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, NodeName: &m, Pool: resourcev1.ResourcePool{Name: m, Generation: 2},
			}}
			for _, value := range values {
				slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: "d", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					resourcev1.QualifiedName(attribute): {StringValue: &value}, "rdma": {BoolValue: new(true)},
				}})
			}
			k.Slices = append(k.Slices, slice)
		}
	}
}

// eachDevice changes the devices that are published.
func eachDevice(do func(*resourcev1.Device)) func(*Kubernetes) {
	return func(k *Kubernetes) {
		for i := range k.Slices {
			for j := range k.Slices[i].Spec.Devices {
				do(&k.Slices[i].Spec.Devices[j])
			}
		}
	}
}

func class(name string, expressions ...string) resourcev1.DeviceClass {
	c := resourcev1.DeviceClass{}
	c.Name = name
	for _, expression := range expressions {
		c.Spec.Selectors = append(c.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
	}
	return c
}

func TestAttach(t *testing.T) {
	const shared, sriov, dra = v1alpha1.AttachmentSharedDevicePlugin, v1alpha1.AttachmentSRIOV, v1alpha1.AttachmentDRA
	ports := publish("dra.net", "dra.net/ifName", "ens11np0", "ens15np0")
	network := func(name, resource, subnet string) Network {
		return Network{Name: name, Resource: resource, Range: netip.MustParsePrefix(subnet)}
	}
	for name, test := range map[string]struct {
		changes    []change
		kubernetes Kubernetes
		attachment v1alpha1.RailAttachment // what is asked for
		want       v1alpha1.RailAttachment
		is         func(f *Found) bool
		notes      []string // each is in a note
	}{
		"nothing is known":      {nil, Kubernetes{}, "", shared, func(f *Found) bool { return f.AttachmentWhy == "" && f.Rails[0].Resource == "rdma/rail0" }, nil},
		"nothing hands out":     {nil, offer("nvidia.com/gpu"), "", shared, nil, nil},
		"a plug-in runs":        {nil, offer("rdma/hca", "rdma/rail0"), "", shared, nil, []string{"a device plugin offers rdma/hca on these machines"}},
		"functions, by folders": {[]change{four}, Kubernetes{}, "", sriov, func(f *Found) bool { return f.Rails[0].Placeholder }, []string{"No API server was asked"}},
		"functions, not handed out": {[]change{four}, offer("nvidia.com/gpu"), "", shared, nil,
			[]string{"each port has virtual functions, but no network"}},
		"functions, by their pools": {[]change{four}, offer("x.io/a", "y.io/b").with(pools), "", sriov,
			func(f *Found) bool {
				return f.Rails[0].Resource == "x.io/a" && f.Rails[1].Resource == "y.io/b" && f.Rails[0].Network == "rail0" && !f.Rails[0].Exists
			}, nil},
		"functions that a machine does not offer": {[]change{four}, offer("x.io/a", "y.io/b").with(pools).with(func(k *Kubernetes) {
			k.Allocatable["gpu-c"] = nil
		}), "", shared, nil, []string{"each port has virtual functions"}},
		"functions without RDMA": {[]change{four}, offer("x.io/a").with(func(k *Kubernetes) {
			k.Pools = []Pool{{"x.io/a", []string{"ens11np0"}, false}}
		}), "", shared, nil, []string{"resource x.io/a has functions of ens11np0 without isRdma"}},
		"functions, by the subnets of networks": {[]change{four}, offer("x.io/a", "x.io/b").with(func(k *Kubernetes) {
			k.Networks = []Network{network("n/one", "x.io/a", "10.1.4.0/24"), network("n/two", "x.io/b", "10.1.0.0/24")}
		}), "", sriov, func(f *Found) bool {
			return f.Rails[0].Resource == "x.io/b" && f.Rails[0].Network == "n/two" && f.Rails[0].Exists && f.PerNode &&
				strings.Contains(f.Why, "network n/two has no route to network n/one")
		}, []string{"topologyManagerPolicy single-numa-node"}},
		"one resource for all": {[]change{four}, offer("x.io/a").with(func(k *Kubernetes) {
			k.Pools = []Pool{{"x.io/a", []string{"ens11np0", "ens15np0"}, true}}
		}), "", sriov, nil, []string{"rail0 and rail1 share resource x.io/a"}},
		"several networks": {[]change{four}, offer("x.io/a", "y.io/b").with(pools).with(func(k *Kubernetes) {
			k.Networks = []Network{network("n/one", "x.io/a", "10.9.0.0/24"), network("n/two", "x.io/a", "10.1.0.0/24")}
		}), "", sriov, func(f *Found) bool { return f.Rails[0].Network == "n/two" }, []string{"these networks attach functions of x.io/a, too: n/one"}},
		"functions of ports without address": {[]change{four, {"", "", func(_ *machine.Machine, p *machine.Port) { p.Addresses = nil }}},
			offer("x.io/a", "y.io/b").with(pools), "", sriov, func(f *Found) bool { return f.Rails[0].RoCE && f.Rails[0].Exists && !f.PerNode },
			[]string{"network.name of rail0, rail1", "it is unknown whether rails of different NUMA nodes reach each other"}},
		"functions of some ports": {[]change{four, {"gpu-b", "mlx5_4", func(_ *machine.Machine, p *machine.Port) { p.Functions.RDMA = 0 }}},
			offer("x.io/a", "y.io/b").with(pools), "", shared, nil,
			[]string{"attachment SRIOV is not possible: gpu-b: no virtual function of ens15np0 (mlx5_4) has an RDMA device"}},
		"functions that are asked for": {[]change{four}, offer("x.io/z"), sriov, sriov, func(f *Found) bool { return f.Rails[1].Resource == "nvidia.com/rail1" },
			[]string{"These machines offer x.io/z."}},
		"no functions, on request": {[]change{four}, offer("x.io/a", "y.io/b").with(pools), shared, shared, nil, nil},
		"a driver publishes": {[]change{four}, offer("x.io/a", "y.io/b").with(pools).with(ports), "", dra, func(f *Found) bool {
			return f.Claims.MakeClass && f.Claims.Class == "dra.net" && f.Rails[0].Network == "" && f.Rails[1].NUMANode == 1 &&
				f.Rails[1].Expression == `cel.bind(d, device.attributes["dra.net"], "ifName" in d && d.ifName == "ens15np0")`
		}, []string{"a claim gives the whole port to one pod"}},
		"a driver with a class": {nil, offer().with(ports).with(func(k *Kubernetes) {
			k.Classes = []resourcev1.DeviceClass{
				class("rdma", `device.driver == "dra.net"`, `device.attributes["dra.net"].rdma`), class("nics", `device.driver == 'dra.net'`),
			}
		}), "", dra, func(f *Found) bool { return f.Claims.Class == "nics" && !f.Claims.MakeClass }, nil},
		"a driver with a narrow class": {nil, offer().with(ports).with(func(k *Kubernetes) {
			k.Classes = []resourcev1.DeviceClass{class("other", `device.driver == "gpu.io"`), class("rdma", `device.driver == "dra.net" && true`)}
		}), "", dra, func(f *Found) bool { return f.Claims.Class == "rdma" }, []string{"DeviceClass rdma has selectors besides"}},
		"a driver that lets pods share": {nil, offer().with(ports).with(eachDevice(func(d *resourcev1.Device) {
			d.AllowMultipleAllocations = new(true)
		})), "", dra, func(f *Found) bool { return len(f.Notes) == 0 }, nil},
		"a driver by PCI address": {nil, offer().with(publish("nic.io", "resource.kubernetes.io/pciBusID", "0000:18:00.0", "0000:9b:00.0")), "", dra,
			func(f *Found) bool {
				return f.Rails[0].Expression == `cel.bind(d, device.attributes["resource.kubernetes.io"], "pciBusID" in d && d.pciBusID == "0000:18:00.0")`
			}, nil},
		"a driver of functions": {[]change{four}, offer().with(publish("sriov.io", "PFName", "ens11np0", "ens15np0")), "", dra, func(f *Found) bool {
			return f.Rails[0].Expression == `cel.bind(d, device.attributes["sriov.io"], "PFName" in d && d.PFName == "ens11np0" && "rdma" in d && d.rdma)`
		}, []string{"what driver sriov.io needs to give a function an address"}},
		"a driver of other devices": {nil, offer().with(publish("gpu.io", "uuid", "1", "2")), "", shared, func(f *Found) bool { return len(f.Notes) == 0 }, nil},
		"a driver that lacks a port": {nil, offer().with(publish("dra.net", "dra.net/ifName", "ens11np0")), "", shared, nil,
			[]string{"driver dra.net publishes no device with RDMA that is ens15np0 (mlx5_4) of gpu-a"}},
		"devices without RDMA": {nil, offer().with(ports).with(eachDevice(func(d *resourcev1.Device) {
			d.Attributes["dra.net/rdma"] = resourcev1.DeviceAttribute{BoolValue: new(false)}
		})), "", shared, nil, nil},
		"devices that are tainted": {nil, offer().with(ports).with(eachDevice(func(d *resourcev1.Device) {
			d.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		})), "", shared, nil, nil},
		"devices of the past": {nil, offer().with(ports).with(func(k *Kubernetes) {
			for _, slice := range slices.Clone(k.Slices) {
				slice.Spec.Pool.Generation, slice.Spec.Devices = 3, nil
				k.Slices = append(k.Slices, slice)
			}
		}), "", shared, nil, nil},
		"what could not be read": {nil, offer().with(func(k *Kubernetes) { k.Unread = []string{"ResourceSlices could not be read (no)"} }), "", shared,
			nil, []string{"ResourceSlices could not be read (no)."}},
	} {
		t.Run(name, func(t *testing.T) {
			options := twoPorts
			options.Attachment = test.attachment
			f, err := Decide(fleet(t, test.changes...), test.kubernetes, options)
			if err != nil {
				t.Fatal(err)
			}
			if f.Attachment != test.want || test.is != nil && !test.is(f) {
				t.Errorf("got %s: %+v\nclaims %+v", f.Attachment, f, f.Claims)
			}
			for _, says := range test.notes {
				if !slices.ContainsFunc(f.Notes, func(n Note) bool { return strings.Contains(n.Text, says) }) {
					t.Errorf("no note says %q: %+v", says, f.Notes)
				}
			}
			if len(f.Notes) > 0 && test.notes == nil && test.want == shared {
				t.Errorf("notes %+v", f.Notes)
			}
		})
	}
}

func TestAttachRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		changes    []change
		kubernetes Kubernetes
		attachment v1alpha1.RailAttachment
		says       []string
	}{
		"no functions": {[]change{withFunctions(machine.Functions{Most: 16})}, Kubernetes{}, v1alpha1.AttachmentSRIOV, []string{
			"gpu-a: ens11np0 (mlx5_0) has no virtual functions and may have 16", "/sys/class/net/ens11np0/device/sriov_numvfs", "gpu-c: ens15np0",
		}},
		"SR-IOV is off": {nil, Kubernetes{}, v1alpha1.AttachmentSRIOV, []string{"turn SR-IOV on in firmware and BIOS"}},
		"functions of a virtual machine": {[]change{withFunctions(machine.Functions{Made: 2, Most: 16})}, Kubernetes{}, v1alpha1.AttachmentSRIOV,
			[]string{"no virtual function of ens11np0 (mlx5_0) has an RDMA device"}},
		"no API server": {nil, Kubernetes{}, v1alpha1.AttachmentDRA, []string{"leave out --from"}},
		"no driver":     {nil, offer(), v1alpha1.AttachmentDRA, []string{"no driver publishes a port", "kubectl get resourceslices"}},
		"a driver that lacks a port": {nil, offer().with(publish("dra.net", "dra.net/ifName", "ens11np0")), v1alpha1.AttachmentDRA,
			[]string{"driver dra.net publishes no device with RDMA that is ens15np0 (mlx5_4) of gpu-c"}},
		"a driver and PCI addresses that differ": {[]change{{"gpu-b", "mlx5_0", func(_ *machine.Machine, p *machine.Port) { p.PCI = "0000:19:00.0" }}},
			offer().with(publish("nic.io", "pciAddress", "0000:18:00.0", "0000:19:00.0", "0000:9b:00.0")), v1alpha1.AttachmentDRA,
			[]string{"pciAddress of driver nic.io differs between gpu-b and gpu-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			options := twoPorts
			options.Attachment = test.attachment
			found, err := Decide(fleet(t, test.changes...), test.kubernetes, options)
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
