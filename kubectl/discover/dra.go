// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/peercache/peercache/operator/machine"
)

// Claims are the devices by which a driver of dynamic resource allocation hands out the ports.
type Claims struct {
	Driver string
	// Class is a DeviceClass with the driver's devices. MakeClass is true where none exists, and Narrow where it chooses by
	// more than the driver.
	Class             string
	MakeClass, Narrow bool
	// Functions is true where the devices are virtual functions of the ports, and Shared where several pods may have one.
	Functions, Shared bool
	// attribute has the value by which a port is known, of a domain.
	domain    string
	attribute portAttribute
	// spelled is the attribute, and rdma that which says that a device has RDMA, as the driver spells them.
	spelled, rdma string
}

// portAttribute is an attribute of devices that tells which port one is.
type portAttribute struct {
	// id is its name without domain; drivers spell it in upper and lower case.
	id    string
	value func(machine.Port) string
	// ofFunction is true where the value is that of the port behind a virtual function.
	ofFunction bool
}

func interfaceOf(p machine.Port) string { return p.Interface }
func pciOf(p machine.Port) string       { return p.PCI }
func deviceOf(p machine.Port) string    { return p.Device }

// portAttributes are those of DraNet, of the SR-IOV driver and of Kubernetes (pciBusID), in the order in which they are tried.
// Names of interfaces come first: like machines have them in common.
var portAttributes = []portAttribute{
	{"ifName", interfaceOf, false},
	{"interfaceName", interfaceOf, false},
	{"rdmaDevice", deviceOf, false},
	{"pciBusID", pciOf, false},
	{"pciAddress", pciOf, false},
	{"pfName", interfaceOf, true},
	{"pfPciAddress", pciOf, true},
}

// rdmaAttributes say whether a device has RDMA.
var rdmaAttributes = []string{"rdma", "rdmaCapable"}

// noDriver begins what is missing where no driver publishes any port.
const noDriver = "no driver publishes"

// claimable returns the first driver and attribute by which every port of every machine can be claimed, or what is missing.
func claimable(machines []chosen, k Kubernetes) (*Claims, []string) {
	var fewest []string
	for _, driver := range k.drivers() {
		for _, attribute := range portAttributes {
			for _, domain := range domains(k.Slices, driver, attribute.id) {
				c := &Claims{Driver: driver, domain: domain, attribute: attribute, Functions: attribute.ofFunction}
				missing := c.missing(machines, k)
				if len(missing) == 0 {
					class, whole := classOf(driver, k.Classes)
					c.Class, c.MakeClass, c.Narrow = cmp.Or(class, driver), class == "", !whole
					return c, nil
				}
				if fewest == nil || len(missing) < len(fewest) {
					fewest = missing
				}
			}
		}
	}
	total := 0
	for _, m := range machines {
		total += len(m.rails)
	}
	if len(fewest) == 0 || len(fewest) == total {
		return nil, []string{noDriver + " a port of these machines with its interface or PCI address"}
	}
	return nil, fewest
}

// missing returns the ports that no device stands for, each with its machine.
func (c *Claims) missing(machines []chosen, k Kubernetes) []string {
	var list []string
	c.Shared = true
	for _, m := range machines {
		devices := k.devices(c.Driver, m.name)
		for i, p := range m.rails {
			at := slices.IndexFunc(devices, func(d resourcev1.Device) bool { return c.is(d, p) })
			switch {
			case at < 0:
				list = append(list, fmt.Sprintf("driver %s publishes no device with RDMA that is %s of %s", c.Driver, label(p), m.name))
			case c.attribute.value(p) != c.attribute.value(machines[0].rails[i]):
				list = append(list, fmt.Sprintf("%s of driver %s differs between %s and %s", c.attribute.id, c.Driver, m.name, machines[0].name))
			default:
				allowed := devices[at].AllowMultipleAllocations
				c.Shared = c.Shared && allowed != nil && *allowed
			}
		}
	}
	return list
}

// is true where the device stands for the port and may be allocated to a pod that needs RDMA.
func (c *Claims) is(d resourcev1.Device, p machine.Port) bool {
	found := false
	for name, attribute := range d.Attributes {
		domain, id := split(name, c.Driver)
		if attribute.BoolValue != nil && domain == c.domain && contains(rdmaAttributes, id) {
			if !*attribute.BoolValue {
				return false
			}
			c.rdma = id
		}
		if domain == c.domain && strings.EqualFold(id, c.attribute.id) && attribute.StringValue != nil {
			found = found || *attribute.StringValue != "" && *attribute.StringValue == c.attribute.value(p)
			c.spelled = id
		}
	}
	return found && !slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool {
		return t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute
	})
}

// expression chooses the device of a port. It asks first whether there is such an attribute: without, allocation would end.
func (c *Claims) expression(p machine.Port) string {
	text := fmt.Sprintf("%q in d && d.%s == %q", c.spelled, c.spelled, c.attribute.value(p))
	if c.Functions && c.rdma != "" {
		text += fmt.Sprintf(" && %q in d && d.%s", c.rdma, c.rdma)
	}
	return fmt.Sprintf("cel.bind(d, device.attributes[%q], %s)", c.domain, text)
}

// classOf returns the class whose only selector is the driver, else one that names the driver besides others, or "".
func classOf(driver string, classes []resourcev1.DeviceClass) (name string, whole bool) {
	for i := range classes {
		for _, selector := range classes[i].Spec.Selectors {
			if selector.CEL == nil {
				continue
			}
			expression := strings.ReplaceAll(selector.CEL.Expression, "'", `"`)
			if expression == `device.driver == "`+driver+`"` && len(classes[i].Spec.Selectors) == 1 {
				return classes[i].Name, true
			}
			if name == "" && strings.Contains(expression, `"`+driver+`"`) {
				name = classes[i].Name
			}
		}
	}
	return name, false
}

// devices returns what a driver publishes of a machine: of each pool the newest generation.
func (k Kubernetes) devices(driver, machineName string) []resourcev1.Device {
	newest := map[string]int64{}
	for i := range k.Slices {
		if s := &k.Slices[i].Spec; s.Driver == driver {
			newest[s.Pool.Name] = max(newest[s.Pool.Name], s.Pool.Generation)
		}
	}
	var devices []resourcev1.Device
	for i := range k.Slices {
		s := &k.Slices[i].Spec
		if s.Driver != driver || s.Pool.Generation != newest[s.Pool.Name] {
			continue
		}
		for _, d := range s.Devices {
			if at := cmp.Or(s.NodeName, d.NodeName); at != nil && *at == machineName {
				devices = append(devices, d)
			}
		}
	}
	return devices
}

// domains returns the domains of an attribute of a driver's devices, sorted.
func domains(all []resourcev1.ResourceSlice, driver, id string) []string {
	var list []string
	for i := range all {
		for _, d := range all[i].Spec.Devices {
			for name := range d.Attributes {
				domain, have := split(name, driver)
				if all[i].Spec.Driver == driver && strings.EqualFold(have, id) && !slices.Contains(list, domain) {
					list = append(list, domain)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// split divides the name of an attribute. A name without domain has the driver's.
func split(name resourcev1.QualifiedName, driver string) (domain, id string) {
	domain, id, found := strings.Cut(string(name), "/")
	if !found {
		return driver, string(name)
	}
	return domain, id
}

func contains(list []string, id string) bool {
	return slices.ContainsFunc(list, func(have string) bool { return strings.EqualFold(have, id) })
}
