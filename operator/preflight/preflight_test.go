// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

type edit = func(*v1alpha1.PeerCacheClusterSpec)

func cluster(edits ...edit) *v1alpha1.PeerCacheCluster {
	c := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: "demo"},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Transport: v1alpha1.TransportTCP,
			Layout:    v1alpha1.LayoutPerNUMA,
			Memory:    v1alpha1.MemorySpec{Pool: resource.MustParse("4Gi"), HugePages: v1alpha1.HugePagesNone},
			Resources: v1alpha1.ResourcesSpec{CPU: resource.MustParse("2"), MemoryOverhead: resource.MustParse("1Gi")},
		},
	}
	for _, change := range edits {
		change(&c.Spec)
	}
	return c
}

func rails(list ...v1alpha1.Rail) edit {
	return func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = list }
}

func shared(name, device string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Group: name, Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: v1alpha1.ExtendedResource(device)}}
}

// machine returns a machine with 8 cores and 16 GiB, and with extra resources as "name=amount".
func machine(name string, extra ...string) corev1.Node {
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"name": name, "cache": "yes", corev1.LabelOSStable: "linux",
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi"),
		}},
	}
	for _, text := range extra {
		resourceName, amount, _ := strings.Cut(text, "=")
		node.Status.Allocatable[corev1.ResourceName(resourceName)] = resource.MustParse(amount)
	}
	return node
}

func check(t *testing.T, c *v1alpha1.PeerCacheCluster, facts Facts) Report {
	t.Helper()
	desired, err := plan.For(c, plan.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return Check(c, desired, facts)
}

func expect(t *testing.T, report Report, kind, want, says string) {
	t.Helper()
	condition := meta.FindStatusCondition(report.Conditions, kind)
	if condition == nil {
		t.Fatalf("there is no condition %s", kind)
	}
	if got := string(condition.Status) + "/" + condition.Reason; got != want || !strings.Contains(condition.Message, says) {
		t.Errorf("%s is %s (%s), want %s saying %q", kind, got, condition.Message, want, says)
	}
}

func TestDevicesAvailable(t *testing.T) {
	twoGroups := rails(shared("a", "rdma/a"), shared("b", "rdma/b"))
	windows := machine("w")
	windows.Labels[corev1.LabelOSStable] = "windows"
	tests := []struct {
		name       string
		edits      []edit
		machines   []corev1.Node
		want, says string
	}{
		{"nothing there", nil, nil, "Unknown/NoMachines", "no Kubernetes node"},
		{"one", nil, []corev1.Node{machine("m")}, "True/Available", "1 machine offers what its members request"},
		{"one beside one of Windows", nil, []corev1.Node{machine("m"), windows}, "True/Available", "1 machine offers"},
		{"two", []edit{twoGroups}, []corev1.Node{machine("m", "rdma/a=1", "rdma/b=9"), machine("n", "rdma/a=1", "rdma/b=9")},
			"True/Available", "2 machines offer what their members request"},
		{"no device", []edit{twoGroups}, []corev1.Node{machine("n", "rdma/a=1", "rdma/b=1"), machine("m", "rdma/a=1")},
			"False/DeviceMissing", "1 of 2 machines lack something: machine m offers 0 rdma/b of 1: let the device plugin"},
		{"devices before memory", []edit{twoGroups, func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Memory.Pool = resource.MustParse("1Ti")
		}}, []corev1.Node{machine("m", "rdma/b=1")}, "False/DeviceMissing", "rdma/a"},
		{"huge pages", []edit{func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HugePages = v1alpha1.HugePages2Mi }},
			[]corev1.Node{machine("m", "hugepages-2Mi=2Gi")}, "False/HugePagesShort",
			"offers 2Gi hugepages-2Mi of 4Gi: reserve huge pages"},
		{"memory of two groups together", []edit{twoGroups, func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Memory.Pool = resource.MustParse("8Gi")
		}}, []corev1.Node{machine("m", "rdma/a=1", "rdma/b=1")}, "False/MemoryShort", "offers 16Gi memory of 18544Mi: lower memory.pool"},
		{"cores", []edit{func(s *v1alpha1.PeerCacheClusterSpec) { s.Resources.CPU = resource.MustParse("9") }},
			[]corev1.Node{machine("m")}, "False/CPUShort", "lower resources.cpu"},
		{"many machines", []edit{rails(shared("a", "rdma/a"))},
			[]corev1.Node{machine("5"), machine("4"), machine("3"), machine("2"), machine("1")}, "False/DeviceMissing", "and 2 more"},
		{"a claim template", []edit{rails(v1alpha1.Rail{Name: "a", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "t"}})},
			[]corev1.Node{machine("m")}, "False/ClaimTemplateMissing", "ResourceClaimTemplate t does not exist in namespace inference"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			report := check(t, cluster(test.edits...), Facts{Machines: test.machines, DRA: true})
			expect(t, report, v1alpha1.ConditionDevicesAvailable, test.want, test.says)
		})
	}
}

// TestMachinesUnread: an operator that may not read machines claims nothing about them.
func TestMachinesUnread(t *testing.T) {
	desired, err := plan.For(cluster(), plan.Facts{DataplaneImage: "dataplane"})
	if err != nil {
		t.Fatal(err)
	}
	report := Check(cluster(), desired, Facts{MachinesUnread: true})
	got := meta.FindStatusCondition(report.Conditions, v1alpha1.ConditionDevicesAvailable)
	if got.Status != metav1.ConditionUnknown || got.Reason != "MachinesUnread" {
		t.Errorf("%+v", got)
	}
}

func TestClaimTemplates(t *testing.T) {
	c := cluster(rails(v1alpha1.Rail{Name: "a", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "t"}}))
	facts := Facts{Machines: []corev1.Node{machine("m")}}
	expect(t, check(t, c, facts), v1alpha1.ConditionDevicesAvailable, "False/DRAUnavailable", "Kubernetes 1.34")
	facts.DRA = true
	facts.Templates = map[types.NamespacedName]bool{{Namespace: "inference", Name: "t"}: true}
	expect(t, check(t, c, facts), v1alpha1.ConditionDevicesAvailable, "True/Available", "")
}

func TestPlacementMatchesDaemonSetController(t *testing.T) {
	tainted := func(name, key string, effect corev1.TaintEffect) corev1.Node {
		node := machine(name)
		node.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}}
		return node
	}
	machines := []corev1.Node{
		machine("plain"), tainted("gpu", "gpu", corev1.TaintEffectNoSchedule), tainted("going", "x", corev1.TaintEffectNoExecute),
		tainted("soft", "x", corev1.TaintEffectPreferNoSchedule),
		tainted("cordoned", corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
		tainted("starting", corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule),
	}
	host := rails(v1alpha1.Rail{Name: "a", Attachment: v1alpha1.AttachmentHostNetwork, HostNetwork: &v1alpha1.HostDevice{Device: "mlx5_0"}})
	affinity := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(`{"affinity": {"nodeAffinity": ` +
			`{"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [` +
			`{"key": "name", "operator": "In", "values": ["soft", "gpu"]}]}]}}}}`)}}
	}
	tests := []struct {
		name  string
		edits []edit
		want  int32
	}{
		{"by taints", nil, 3},
		{"on the host's network", []edit{host}, 4},
		{"by tolerations", []edit{func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Nodes.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		}}, 4},
		{"by selector", []edit{func(s *v1alpha1.PeerCacheClusterSpec) { s.Nodes.Selector = map[string]string{"name": "soft"} }}, 1},
		{"by affinity of podTemplate", []edit{affinity}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := check(t, cluster(test.edits...), Facts{Machines: machines}).Plan.Machines; got != test.want {
				t.Errorf("%d machines, want %d", got, test.want)
			}
		})
	}
}

func TestDrained(t *testing.T) {
	drain := func(node corev1.Node, value string) corev1.Node {
		node.Labels[v1alpha1.LabelDrain] = value
		return node
	}
	elsewhere := machine("elsewhere")
	elsewhere.Labels = map[string]string{}
	here := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"cache": "yes"}
		s.Memory.Pool = resource.MustParse("32Gi") // no machine has that much
	}
	small := []corev1.Node{drain(machine("a"), "true"), drain(elsewhere, "true")}
	desired, err := plan.For(cluster(here), plan.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	if got := Drained(desired.DaemonSets[0], append(small, machine("b"), drain(machine("c"), "no"))); !slices.Equal(got, []string{"a"}) {
		t.Errorf("drained are %q", got)
	}
	if _, still := small[0].Labels[v1alpha1.LabelDrain]; !still {
		t.Error("the machine itself lost its label")
	}
	// A shortage of a drained machine does not matter until the machine is undrained.
	expect(t, check(t, cluster(here), Facts{Machines: small}), v1alpha1.ConditionDevicesAvailable, "Unknown/AllDrained", "is drained")
	large := machine("b")
	large.Status.Allocatable["memory"] = resource.MustParse("64Gi")
	report := check(t, cluster(here), Facts{Machines: append(small, large)})
	expect(t, report, v1alpha1.ConditionDevicesAvailable, "True/Available", "1 machine offers")
	if report.Plan.Machines != 1 {
		t.Errorf("the plan has %d machines", report.Plan.Machines)
	}

	pools := func(s *v1alpha1.PeerCacheClusterSpec) {
		here(s)
		s.NodePools = []v1alpha1.NodePool{{Name: "p", Selector: map[string]string{"name": "b"}}, {Name: "q", Selector: map[string]string{"name": "a"}}}
	}
	stray := meta.FindStatusCondition(check(t, cluster(pools), Facts{Machines: append(small, large)}).Conditions,
		v1alpha1.ConditionDevicesAvailable)
	if strings.Contains(stray.Message, "match nodes.selector but run no member") {
		t.Errorf("a drained machine is taken for one that no pool wants: %s", stray.Message)
	}
}

func TestPools(t *testing.T) {
	pools := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"cache": "yes"}
		s.Rails = []v1alpha1.Rail{shared("a", "rdma/a")}
		s.NodePools = []v1alpha1.NodePool{
			{Name: "fast", Selector: map[string]string{"fast": "yes"}, Rails: []string{"a"}},
			{Name: "slow", Selector: map[string]string{"slow": "yes"}},
			{Name: "big", Selector: map[string]string{"big": "yes"}, Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("6Gi")}},
		}
	}
	label := func(node corev1.Node, labels ...string) corev1.Node {
		for _, l := range labels {
			node.Labels[l] = "yes"
		}
		return node
	}
	good := []corev1.Node{
		label(machine("f", "rdma/a=1"), "fast"), label(machine("s"), "slow"), label(machine("b"), "big"), machine("stray"),
	}
	report := check(t, cluster(pools), Facts{Machines: good})
	expect(t, report, v1alpha1.ConditionDevicesAvailable, "True/Available", "; stray match nodes.selector but run no member")
	if report.Plan.Machines != 3 || report.Plan.Members != 3 || report.Plan.Pool.String() != "14Gi" {
		t.Errorf("the plan is %+v", report.Plan)
	}
	var groups []string
	for _, group := range report.Plan.Groups {
		memory := group.Requests[corev1.ResourceMemory]
		groups = append(groups, fmt.Sprintf("%s:%d:%s:%s", group.Name, group.Machines, strings.Join(group.Rails, ","), memory.String()))
	}
	if want := []string{"fast-a:1:a:5148Mi", "slow-default:1::5148Mi", "big-default:1::7210Mi"}; !slices.Equal(groups, want) {
		t.Errorf("groups are %q, want %q", groups, want)
	}

	both := []corev1.Node{label(machine("m"), "slow", "big")}
	expect(t, check(t, cluster(pools), Facts{Machines: both}), v1alpha1.ConditionDevicesAvailable, "False/PoolsOverlap",
		`machine m matches node pools "slow" and "big"`)
}

func TestNetworksResolved(t *testing.T) {
	rail := v1alpha1.Rail{Name: "a", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/a"}, Network: &v1alpha1.RailNetwork{Name: "fabric/a"}}
	local, virtual, fixed := rail, rail, rail
	plain := v1alpha1.Rail{Name: "a", Attachment: v1alpha1.AttachmentNetwork, Network: &v1alpha1.RailNetwork{Name: "fabric/a", Interface: "rail0"}}
	local.Network = &v1alpha1.RailNetwork{Name: "a"}
	virtual.Attachment, virtual.SharedDevicePlugin, virtual.SRIOV = v1alpha1.AttachmentSRIOV, nil, &v1alpha1.VirtualFunction{ResourceName: "rdma/a"}
	fixed.Network = &v1alpha1.RailNetwork{Name: "fabric/a", MAC: "02:00:00:00:00:01"}
	exists := func(resourceName string) map[types.NamespacedName]Network {
		return map[types.NamespacedName]Network{{Namespace: "fabric", Name: "a"}: {Resource: resourceName}}
	}
	one, two := []corev1.Node{machine("m")}, []corev1.Node{machine("m"), machine("n")}
	tests := []struct {
		name       string
		rails      []v1alpha1.Rail
		facts      Facts
		want, says string
	}{
		{"no network", []v1alpha1.Rail{shared("a", "rdma/a")}, Facts{}, "True/NotNeeded", ""},
		{"no Multus", []v1alpha1.Rail{rail}, Facts{}, "False/MultusMissing", "install Multus"},
		{"missing", []v1alpha1.Rail{rail}, Facts{Multus: true}, "False/NetworkMissing", "fabric/a does not exist: create it"},
		{"missing in the cluster's namespace", []v1alpha1.Rail{local}, Facts{Multus: true, Networks: exists("")},
			"False/NetworkMissing", "inference/a"},
		{"there", []v1alpha1.Rail{rail}, Facts{Multus: true, Networks: exists("")}, "True/Resolved", "1 network exists"},
		{"of its resource", []v1alpha1.Rail{virtual}, Facts{Multus: true, Networks: exists("rdma/a")}, "True/Resolved", ""},
		{"of another resource", []v1alpha1.Rail{rail}, Facts{Multus: true, Networks: exists("rdma/b")},
			"False/ResourceMismatch", "write resourceName: rdma/b"},
		{"SR-IOV without resource", []v1alpha1.Rail{virtual}, Facts{Multus: true, Networks: exists("")},
			"False/ResourceMismatch", "annotate it with rdma/a"},
		{"a network alone", []v1alpha1.Rail{plain}, Facts{Multus: true, Networks: exists("")}, "True/Resolved", ""},
		{"a network alone, of a resource", []v1alpha1.Rail{plain}, Facts{Multus: true, Networks: exists("rdma/b")},
			"False/ResourceMismatch", "write attachment: SRIOV or SharedDevicePlugin with resourceName: rdma/b, or name another network"},
		{"a fixed address on one machine", []v1alpha1.Rail{fixed}, Facts{Multus: true, Networks: exists(""), Machines: one},
			"True/Resolved", ""},
		{"a fixed address on two machines", []v1alpha1.Rail{fixed}, Facts{Multus: true, Networks: exists(""), Machines: two},
			"False/AddressShared", "which 2 machines would share"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reached := func(s *v1alpha1.PeerCacheClusterSpec) {
				if slices.ContainsFunc(test.rails, func(r v1alpha1.Rail) bool { return r.Attached().Interface == "rail0" }) {
					s.Discovery.Interface = "rail0"
				}
			}
			expect(t, check(t, cluster(rails(test.rails...), reached), test.facts), v1alpha1.ConditionNetworksResolved, test.want, test.says)
		})
	}
}
