// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// Warnings are about problems that do not stop nodes from starting: kernels without a feature, and pods that some kubelets
// refuse. A version says nothing about features that vendors port to older kernels, such as dma-bufs of RDMA drivers;
// `peercached doctor` tries those.

// version is a version of Linux, without its patch level.
type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

var (
	// kernelMountSetattr is the first version with mount_setattr(2), with which the CSI driver mounts sockets.
	kernelMountSetattr = version{5, 12}
	// kernelMadvPopulate is the first version with MADV_POPULATE_WRITE, with which a node allocates the memory of its
	// pool.
	kernelMadvPopulate = version{5, 14}
)

// kernelOf parses the version of a kubelet, such as 5.14.0-570.el9.x86_64. A version that it cannot parse causes no
// warning.
func kernelOf(machine *corev1.Node) (version, bool) {
	parts := strings.SplitN(machine.Status.NodeInfo.KernelVersion, ".", 3)
	if len(parts) < 3 {
		return version{}, false
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	return version{major, minor}, errMajor == nil && errMinor == nil
}

// olderThan names the machines with an older kernel, by version, or returns "".
func olderThan(needed version, machines []*corev1.Node) string {
	old, total := map[version][]string{}, 0
	for _, machine := range machines {
		if kernel, known := kernelOf(machine); known && kernel.before(needed) {
			old[kernel] = append(old[kernel], machine.Name)
			total++
		}
	}
	if total == 0 {
		return ""
	}
	kernels := slices.SortedFunc(maps.Keys(old), func(a, b version) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	texts := make([]string, 0, maxNamed+1)
	for i, kernel := range kernels {
		if i == maxNamed {
			texts = append(texts, fmt.Sprintf("and %d more kernels", len(kernels)-maxNamed))
			break
		}
		texts = append(texts, fmt.Sprintf("kernel %s: %s", kernel, firstNames(old[kernel])))
	}
	return fmt.Sprintf("%d of %s a Linux before %s (%s)", total, count(len(machines), "machine has", "machines have"), needed,
		strings.Join(texts, "; "))
}

// firstNames joins at most maxNamed names.
func firstNames(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// socketKernels names the machines where the CSI driver cannot mount sockets, so that SGLang pods wait forever, or
// returns "".
func socketKernels(spec v1alpha1.PeerCacheClusterSpec, at placed) string {
	if !plan.SocketByDriver(spec.Injection) {
		return ""
	}
	return olderThan(kernelMountSetattr, at.machines)
}

// warnings returns the warnings for machines that offer all requests.
func warnings(spec v1alpha1.PeerCacheClusterSpec, groups []plan.Group, at placed) string {
	texts := slices.Concat(populateWarnings(spec, groups, at), topologyWarnings(groups))
	if len(texts) == 0 {
		return ""
	}
	return "; " + strings.Join(texts, "; ")
}

func populateWarnings(spec v1alpha1.PeerCacheClusterSpec, groups []plan.Group, at placed) []string {
	old := olderThan(kernelMadvPopulate, at.machines)
	if old == "" {
		return nil
	}
	var lacking []string
	if slices.ContainsFunc(groups, func(g plan.Group) bool { return g.NearNUMA(spec) }) {
		lacking = append(lacking, "no member can find out there whether its memory is near its rails (NUMAAligned)")
	}
	if slices.ContainsFunc(groups, func(g plan.Group) bool { return g.Memory(spec).HugePages != v1alpha1.HugePagesNone }) {
		lacking = append(lacking, "a member that is denied its huge pages there ends with SIGBUS instead of an error")
	}
	if len(lacking) == 0 {
		return nil
	}
	return []string{old + ": " + strings.Join(lacking, ", and ")}
}

// topologyWarnings names pods with devices of several resources whose NUMA nodes the spec does not give. The operator cannot read
// the policy of a kubelet without rights over the whole machine (docs/rails.md).
func topologyWarnings(groups []plan.Group) (texts []string) {
	for _, group := range groups {
		var rails []string
		resources := map[string]bool{}
		for _, rail := range group.Rails {
			if rail.Attachment == v1alpha1.AttachmentSRIOV && rail.NUMANode == nil {
				rails = append(rails, rail.Name)
				resources[rail.ResourceName()] = true
			}
		}
		if len(resources) > 1 {
			texts = append(texts, fmt.Sprintf("rails %s of group %s are devices of one pod, which a kubelet with "+
				"topologyManagerPolicy: single-numa-node or restricted refuses where they are on different NUMA nodes: give each "+
				"NUMA node a member of its own, under layout: PerNUMA by rails[].numaNode, under another by a rails[].group for each", firstNames(rails), group.FullName()))
		}
	}
	return texts
}
