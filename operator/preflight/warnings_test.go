// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// withKernels returns machines a, b, c and so on, with these kernels.
func withKernels(kernels ...string) []corev1.Node {
	machines := make([]corev1.Node, 0, len(kernels))
	for i, kernel := range kernels {
		m := machine(string(rune('a'+i)), "hugepages-2Mi=8Gi")
		m.Status.NodeInfo.KernelVersion = kernel
		machines = append(machines, m)
	}
	return machines
}

func TestKernelOf(t *testing.T) {
	for text, want := range map[string]version{
		"5.4.0-150-generic": {5, 4}, "5.14.0-570.el9.x86_64": {5, 14}, "6.1.0": {6, 1}, "10.0.1-azure": {10, 0},
	} {
		if got, known := kernelOf(&withKernels(text)[0]); !known || got != want {
			t.Errorf("%s is read as %s (known: %t)", text, got, known)
		}
	}
	for _, text := range []string{"", "6", "6.1", "six.one.two", "v6.1.0"} {
		if got, known := kernelOf(&withKernels(text)[0]); known {
			t.Errorf("%q is read as %s", text, got)
		}
	}
	for _, pair := range [][2]version{{{5, 4}, {5, 12}}, {{4, 18}, {5, 12}}, {{5, 9}, {5, 10}}} {
		if !pair[0].before(pair[1]) || pair[1].before(pair[0]) || pair[0].before(pair[0]) {
			t.Errorf("%s is not before %s", pair[0], pair[1])
		}
	}
}

func TestOldKernels(t *testing.T) {
	csi := func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Socket = v1alpha1.SocketCSI }
	sidecar := func(s *v1alpha1.PeerCacheClusterSpec) { csi(s); s.Injection.Mode = v1alpha1.InjectionSidecar }
	elsewhere := func(s *v1alpha1.PeerCacheClusterSpec) { csi(s); s.Nodes.Selector = map[string]string{"name": "a"} }
	tests := []struct {
		name    string
		edit    edit
		kernels []string
		says    string
	}{
		{"new enough", csi, []string{"5.12.0", "6.1.0"}, ""},
		{"not known", csi, []string{"", "x.y.z"}, ""},
		{"no driver wanted", func(*v1alpha1.PeerCacheClusterSpec) {}, []string{"5.4.0"}, ""},
		{"no driver in sidecars", sidecar, []string{"5.4.0"}, ""},
		{"machines that take no part", elsewhere, []string{"6.1.0", "5.4.0"}, ""},
		{"one", csi, []string{"5.4.0-150-generic"}, "1 of 1 machine has a Linux before 5.12 (kernel 5.4: a)"},
		{"grouped, the oldest first", csi, []string{"5.4.0-1", "6.1.0", "5.4.0-2", "4.18.0", "5.4.0-3", "5.4.7"},
			"5 of 6 machines have a Linux before 5.12 (kernel 4.18: d; kernel 5.4: a, c, e and 1 more)"},
		{"many versions", csi, []string{"5.0.0", "5.1.0", "5.2.0", "5.3.0", "5.4.0"},
			"5 of 5 machines have a Linux before 5.12 (kernel 5.0: a; kernel 5.1: b; kernel 5.2: c; and 2 more kernels)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if says := check(t, cluster(test.edit), Facts{Machines: withKernels(test.kernels...)}).SocketKernels; says != test.says {
				t.Errorf("got  %q\nwant %q", says, test.says)
			}
		})
	}
}

func virtual(name, device string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Attachment: v1alpha1.AttachmentSRIOV, Group: "g", SRIOV: &v1alpha1.VirtualFunction{ResourceName: v1alpha1.ExtendedResource(device)}}
}

// TestWarnings checks that warnings are in the message of a condition that is True, because they do not stop nodes.
func TestWarnings(t *testing.T) {
	huge := func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HugePages = v1alpha1.HugePages2Mi }
	rdma := func(list ...v1alpha1.Rail) edit {
		return func(s *v1alpha1.PeerCacheClusterSpec) { s.Transport, s.Rails = v1alpha1.TransportRDMA, list }
	}
	near := virtual("a", "x/a")
	near.Group, near.NUMANode = "", new(int32(0))
	far := virtual("b", "x/b")
	far.Group, far.NUMANode = "", new(int32(1))
	none := []string{"refuses", "SIGBUS", "NUMAAligned"}
	tests := []struct {
		name       string
		edit       edit
		kernel     string
		says, lack []string
	}{
		{"nothing wanted of a kernel", func(*v1alpha1.PeerCacheClusterSpec) {}, "5.4.0", nil, none},
		{"huge pages", huge, "5.4.0", []string{"2 of 2 machines have a Linux before 5.14 (kernel 5.4: a, b): a member that is denied its huge " +
			"pages there ends with SIGBUS"}, []string{"NUMAAligned", "refuses"}},
		{"huge pages of a newer kernel", huge, "5.14.0", nil, none},
		{"rails", rdma(near), "5.4.0", []string{"whether its memory is near its rails (NUMAAligned)"}, []string{"SIGBUS", "refuses"}},
		{"devices of one pod", rdma(virtual("a", "x/a"), virtual("b", "x/b")), "6.1.0",
			[]string{"rails a, b of group g are devices of one pod, which a kubelet with topologyManagerPolicy: single-numa-node"},
			[]string{"SIGBUS", "NUMAAligned"}},
		{"devices of one resource, which the kubelet chooses together", rdma(virtual("a", "x/a"), virtual("b", "x/a")), "6.1.0", nil, none},
		{"devices that the kubelet does not place", rdma(shared("a", "x/a"), shared("b", "x/b")), "6.1.0", nil, none},
		{"a member for each NUMA node", rdma(near, far), "6.1.0", nil, none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			machines := withKernels(test.kernel, test.kernel)
			for i := range machines {
				machines[i].Status.Allocatable["x/a"], machines[i].Status.Allocatable["x/b"] = resource.MustParse("9"), resource.MustParse("9")
			}
			report := check(t, cluster(test.edit), Facts{Machines: machines, Multus: true})
			expect(t, report, v1alpha1.ConditionDevicesAvailable, "True/Available", "2 machines offer what")
			message := meta.FindStatusCondition(report.Conditions, v1alpha1.ConditionDevicesAvailable).Message
			for _, text := range test.says {
				if !strings.Contains(message, text) {
					t.Errorf("%q does not say %q", message, text)
				}
			}
			for _, text := range test.lack {
				if strings.Contains(message, text) {
					t.Errorf("%q says %q", message, text)
				}
			}
		})
	}
}
