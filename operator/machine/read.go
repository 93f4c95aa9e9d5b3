// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Read describes the machine whose sys and proc are in root. On the machine itself root is "/". It needs no right: all files
// are readable by everybody. Other network namespaces have other interfaces, so a container needs that of the machine.
func Read(root string) (*Machine, error) {
	if _, err := os.Stat(filepath.Join(root, "sys/class/net")); err != nil {
		return nil, fmt.Errorf("%w: name a folder with sys and proc of a machine, such as /", err)
	}
	s := source{sys: filepath.Join(root, "sys")}
	devices, err := s.list("class/infiniband")
	if err != nil {
		return nil, err
	}
	routes := parseRoutes(s.text("../proc/net/route"))
	m := &Machine{RDMAExclusive: strings.EqualFold(s.text("module/ib_core/parameters/netns_mode"), "N")}
	for _, device := range devices {
		numbers, err := s.list("class/infiniband/" + device + "/ports")
		if err != nil {
			return nil, err
		}
		for _, text := range numbers {
			if number, err := strconv.Atoi(text); err == nil {
				port := s.port(device, number)
				s.addInterface(&port, routes)
				m.Ports = append(m.Ports, port)
			}
		}
	}
	if m.NUMA, err = s.numaNodes(); err != nil {
		return nil, err
	}
	if m.GPUs, err = s.gpus(); err != nil {
		return nil, err
	}
	return m, nil
}

// Print writes the description of the machine in root as one line of JSON.
func Print(w io.Writer, root string) error {
	m, err := Read(root)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(m)
}

// source reads files of sysfs.
type source struct{ sys string }

// text returns the content of a file without surrounding blanks, or "". Files of things that do not exist, such as an unused
// entry of a GID table, are missing or give an error.
func (s source) text(path string) string {
	content, err := os.ReadFile(filepath.Join(s.sys, path)) //nolint:gosec // the user names the root
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// number returns the number in a file, or otherwise.
func (s source) number(path string, otherwise int) int {
	n, err := strconv.Atoi(s.text(path))
	if err != nil {
		return otherwise
	}
	return n
}

// list returns the sorted names in a folder; none where the folder does not exist.
func (s source) list(folder string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.sys, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: run as a user who may read it", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// target returns the last element of what a link leads to, or "".
func (s source) target(link string) string {
	path, err := filepath.EvalSymlinks(filepath.Join(s.sys, link))
	if err != nil {
		return ""
	}
	return filepath.Base(path)
}

func (s source) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(s.sys, path))
	return err == nil
}

// port reads what the device says.
func (s source) port(device string, number int) Port {
	folder := "class/infiniband/" + device
	port := fmt.Sprintf("%s/ports/%d", folder, number)
	p := Port{
		Device: device, Number: number, PCI: s.target(folder + "/device"),
		NUMANode: s.number(folder+"/device/numa_node", -1), Virtual: s.exists(folder + "/device/physfn"),
		LinkLayer: LinkLayer(s.text(port + "/link_layer")), Functions: s.functions(folder + "/device"),
	}
	vendor, model := s.text(folder+"/device/vendor"), s.text(folder+"/device/device")
	if vendor != "" && model != "" {
		p.Card = strings.TrimPrefix(vendor, "0x") + ":" + strings.TrimPrefix(model, "0x")
	}
	// "4: ACTIVE" and "5: LinkUp"
	state, physical := afterColon(s.text(port+"/state")), afterColon(s.text(port+"/phys_state"))
	p.Up, p.State = state == "ACTIVE", state
	if !p.Up {
		p.State = fmt.Sprintf("%s (%s)", state, physical)
	}
	// "400 Gb/sec (4X NDR)", and of slow ports "2.5 Gb/sec (1X SDR)"
	rate, _, _ := strings.Cut(s.text(port+"/rate"), " ")
	gbps, _ := strconv.ParseFloat(rate, 64)
	p.Gbps = int(gbps)
	p.Interface = s.interfaceOf(p, port)
	return p
}

// functions counts the virtual functions of a PCI device.
func (s source) functions(device string) Functions {
	f := Functions{Made: s.number(device+"/sriov_numvfs", 0), Most: s.number(device+"/sriov_totalvfs", 0)}
	for i := range f.Made {
		if names, _ := s.list(fmt.Sprintf("%s/virtfn%d/infiniband", device, i)); len(names) > 0 {
			f.RDMA++
		}
	}
	return f
}

func afterColon(text string) string {
	_, after, _ := strings.Cut(text, ": ")
	return after
}

// interfaceOf returns the interface of the port's GIDs, or else the interface of the same PCI function and port.
func (s source) interfaceOf(p Port, folder string) string {
	entries, _ := s.list(folder + "/gid_attrs/ndevs")
	for _, entry := range entries {
		if name := s.text(folder + "/gid_attrs/ndevs/" + entry); name != "" {
			return name
		}
	}
	names, _ := s.list("class/infiniband/" + p.Device + "/device/net")
	for _, name := range names {
		if s.number("class/net/"+name+"/dev_port", 0) == p.Number-1 {
			return name
		}
	}
	return ""
}

func (s source) numaNodes() ([]NUMANode, error) {
	names, err := s.list("devices/system/node")
	var nodes []NUMANode
	for _, name := range names {
		digits, isNode := strings.CutPrefix(name, "node")
		id, err := strconv.Atoi(digits)
		if !isNode || err != nil {
			continue
		}
		pages := "devices/system/node/" + name + "/hugepages/hugepages-"
		nodes = append(nodes, NUMANode{
			ID: id, HugePages2Mi: s.number(pages+"2048kB/nr_hugepages", 0), HugePages1Gi: s.number(pages+"1048576kB/nr_hugepages", 0),
		})
	}
	slices.SortFunc(nodes, func(a, b NUMANode) int { return a.ID - b.ID })
	return nodes, err
}

// The vendors of GPUs, and the classes of their functions: VGA, 3D controller, processing accelerator.
var (
	gpuVendors = []string{"0x10de", "0x1002"}
	gpuClasses = []string{"0x0300", "0x0302", "0x1200"}
)

func (s source) gpus() ([]GPU, error) {
	names, err := s.list("bus/pci/devices")
	var gpus []GPU
	for _, name := range names {
		folder := "bus/pci/devices/" + name
		class := s.text(folder + "/class")
		if slices.Contains(gpuVendors, s.text(folder+"/vendor")) && len(class) > 6 && slices.Contains(gpuClasses, class[:6]) {
			gpus = append(gpus, GPU{PCI: name, NUMANode: s.number(folder+"/numa_node", -1)})
		}
	}
	return gpus, err
}
