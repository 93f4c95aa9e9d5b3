// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
)

// machine creates a Kubernetes node that only clusters with the selector {test: <namespace>} select.
func (b *bench) machine(name string, allocatable corev1.ResourceList) {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: b.namespace + "-" + name, Labels: map[string]string{"test": b.namespace, corev1.LabelOSStable: "linux"},
	}}
	b.must(b.Create(b.Context(), node))
	b.Cleanup(func() {
		if err := testenv.Client(b.T).Delete(context.WithoutCancel(b.Context()), node); client.IgnoreNotFound(err) != nil {
			b.Log(err)
		}
	})
	node.Spec.Taints = nil // the API server adds the taint not-ready to a new machine
	b.must(b.Update(b.Context(), node))
	node.Status.Allocatable = allocatable
	b.must(b.Status().Update(b.Context(), node))
}

func (b *bench) here(s *v1alpha1.PeerCacheClusterSpec) {
	s.Nodes.Selector = map[string]string{"test": b.namespace}
}

func TestPreflightOfDevices(t *testing.T) {
	b := newBench(t)
	b.machine("a", corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")})
	b.cluster(b.here, func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = []v1alpha1.Rail{sharedRail("a", "g")} })
	b.pass()
	b.condition("DevicesAvailable", metav1.ConditionFalse, "DeviceMissing", b.namespace+"-a offers 0 rdma/x of 1")
	b.daemonSet("g") // the device may still appear, so nodes are created
	if recorded := b.events(); !slices.ContainsFunc(recorded, func(e string) bool {
		return strings.HasPrefix(e, "Warning DeviceMissing")
	}) {
		t.Errorf("no warning among %q", recorded)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	node := &corev1.Node{}
	b.must(b.Get(t.Context(), client.ObjectKey{Name: b.namespace + "-a"}, node))
	node.Status.Allocatable["rdma/x"] = resource.MustParse("1")
	b.must(b.Status().Update(t.Context(), node))
	b.pass()
	b.condition("DevicesAvailable", metav1.ConditionTrue, "Available", "1 machine offers")
	b.condition("NetworksResolved", metav1.ConditionTrue, "NotNeeded", "")

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails = []v1alpha1.Rail{hostRail("a", "g"), hostRail("b", "h")}
	})
	b.pass()
	b.condition("DevicesAvailable", metav1.ConditionUnknown, "ConfigNotAccepted", "")
}

func TestPreflightOfKernels(t *testing.T) {
	b := newBench(t)
	b.machine("a", corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
		"hugepages-2Mi": resource.MustParse("2Gi")})
	b.cluster(b.here, func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HugePages = v1alpha1.HugePages2Mi })
	node := &corev1.Node{}
	b.must(b.Get(t.Context(), client.ObjectKey{Name: b.namespace + "-a"}, node))
	node.Status.NodeInfo.KernelVersion = "5.4.0-150-generic"
	b.must(b.Status().Update(t.Context(), node))
	b.pass()
	b.condition("DevicesAvailable", metav1.ConditionTrue, "Available",
		"; 1 of 1 machine has a Linux before 5.14 (kernel 5.4: "+b.namespace+"-a): a member that is denied its huge pages there")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}
}

func TestPreflightOfClaims(t *testing.T) {
	b := newBench(t)
	b.machine("a", corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")})
	b.cluster(b.here, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails = []v1alpha1.Rail{{Name: "a", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "nic"}}}
	})
	b.pass()
	if testenv.Minor(t) < 34 {
		b.condition("DevicesAvailable", metav1.ConditionFalse, "DRAUnavailable", "use Kubernetes 1.34 or later")
		return
	}
	b.condition("DevicesAvailable", metav1.ConditionFalse, "ClaimTemplateMissing", "ResourceClaimTemplate nic does not exist")
	template := &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "nic"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "nic0", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "nics"}}},
		}}},
	}
	b.must(b.Create(t.Context(), template))
	b.pass()
	b.condition("DevicesAvailable", metav1.ConditionTrue, "Available", "")
}

// TestPreflightOfNetworks installs the kind of networks while the operator runs, as when Multus is installed later.
func TestPreflightOfNetworks(t *testing.T) {
	b := newBench(t)
	rail := sharedRail("a", "g")
	rail.Network = &v1alpha1.RailNetwork{Name: "fabric"}
	b.cluster(b.here, func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = []v1alpha1.Rail{rail} })
	b.pass()
	b.condition("NetworksResolved", metav1.ConditionFalse, "MultusMissing", "install Multus")

	installNetworks(t)
	b.pass()
	b.condition("NetworksResolved", metav1.ConditionFalse, "NetworkMissing", b.namespace+"/fabric does not exist")

	network := &unstructured.Unstructured{}
	network.SetAPIVersion("k8s.cni.cncf.io/v1")
	network.SetKind("NetworkAttachmentDefinition")
	network.SetNamespace(b.namespace)
	network.SetName("fabric")
	network.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/resourceName": "rdma/other"})
	b.must(b.Create(t.Context(), network))
	b.pass()
	b.condition("NetworksResolved", metav1.ConditionFalse, "ResourceMismatch", "write resourceName: rdma/other")
	network.SetAnnotations(nil)
	b.must(b.Update(t.Context(), network))
	b.reconciler.Now = func() time.Time { return time.Now().Add(2 * lookupTTL) }
	b.pass()
	b.condition("NetworksResolved", metav1.ConditionTrue, "Resolved", "1 network exists")
}

// TestDrainedMachines checks that the DaemonSet has the affinity with which its controller deletes pods of drained machines, and
// that the status counts the machine as drained.
func TestDrainedMachines(t *testing.T) {
	b := newBench(t)
	b.machine("a", corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")})
	b.machine("b", corev1.ResourceList{}) // too small, which is a shortage unless it is drained
	b.cluster(b.here)
	b.pass()
	b.setCounts("default", 2, 2, 2)
	b.pass()
	b.condition("DevicesAvailable", metav1.ConditionFalse, "CPUShort", b.namespace+"-b")
	terms := b.daemonSet("default").Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	want := corev1.NodeSelectorRequirement{Key: "peercache.io/drain", Operator: "NotIn", Values: []string{"true"}}
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || !equality.Semantic.DeepEqual(terms[0].MatchExpressions[0], want) {
		t.Errorf("the DaemonSet's node affinity is %+v", terms)
	}
	b.events()

	b.label("b", "true")
	b.setCounts("default", 1, 1, 1)
	b.pass()
	b.condition("DevicesAvailable", metav1.ConditionTrue, "Available", "1 machine offers")
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "1/1 members serve; drained machines: "+b.namespace+"-b")
	if status := b.get().Status; status.DesiredMembers != 1 || status.DrainedMembers != 1 || status.Groups[0].Drained != 1 {
		t.Errorf("status is %+v", status)
	}
	b.event("Normal Drained drained machines: " + b.namespace + "-b; members that are away or leaving: 1, before: 0;")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	b.label("a", "true")
	b.setCounts("default", 0, 0, 0)
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "AllDrained", "kubectl peercache undrain")
	b.label("a", "")
	b.label("b", "")
	b.setCounts("default", 2, 2, 2)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "2/2 members serve")
	b.event("Normal Undrained no machine is drained any more; members that come back: 2")
	if status := b.get().Status; status.DrainedMembers != 0 || status.Groups[0].Drained != 0 {
		t.Errorf("status is %+v", status)
	}
}

// label drains a machine, or undrains it.
func (b *bench) label(machine, value string) {
	b.Helper()
	node := &corev1.Node{}
	b.must(b.Get(b.Context(), client.ObjectKey{Name: b.namespace + "-" + machine}, node))
	node.Labels[v1alpha1.LabelDrain] = value
	if value == "" {
		delete(node.Labels, v1alpha1.LabelDrain)
	}
	b.must(b.Update(b.Context(), node))
}

// event fails unless an event since the last call begins with the text.
func (b *bench) event(begins string) {
	b.Helper()
	recorded := b.events()
	if !slices.ContainsFunc(recorded, func(e string) bool { return strings.HasPrefix(e, begins) }) {
		b.Errorf("no event %q among %q", begins, recorded)
	}
}

func TestModePlanCreatesNothing(t *testing.T) {
	b := newBench(t)
	b.machine("a", corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")})
	b.machine("b", corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")})
	b.cluster(b.here, func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode = v1alpha1.ModePlan })
	if wrote := b.pass(); len(wrote) != 1 || !strings.HasSuffix(wrote[0], "/status") {
		t.Errorf("mode Plan wrote %q", wrote)
	}
	b.condition("Ready", metav1.ConditionFalse, "PlanOnly", "2 members on 2 machines would hold 2Gi of pages, by 7 changes")
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Planned", "")
	plan := b.get().Status.Plan
	if plan == nil || len(plan.Groups) != 1 || plan.Groups[0].Machines != 2 || plan.Groups[0].Requests.Cpu().String() != "1" ||
		len(plan.Changes) != 7 || plan.Changes[6] != "create DaemonSet "+b.namespace+"/demo-default" {
		t.Fatalf("the plan is %+v", plan)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode = v1alpha1.ModeApply })
	b.pass()
	b.setCounts("default", 2, 2, 2)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "")
	if plan := b.get().Status.Plan; plan != nil {
		t.Errorf("the plan is still shown: %+v", plan)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Mode = v1alpha1.ModePlan
		s.Image = "dataplane:2"
		s.Rails = []v1alpha1.Rail{hostRail("a", "g")}
	})
	b.pass()
	want := []string{
		"create DaemonSet " + b.namespace + "/demo-g", "delete NetworkPolicy " + b.namespace + "/demo-peers",
		"delete DaemonSet " + b.namespace + "/demo-default",
	}
	if plan := b.get().Status.Plan; !slices.Equal(plan.Changes, want) {
		t.Errorf("changes are %q, want %q", plan.Changes, want)
	}
	if image := b.daemonSet("default").Spec.Template.Spec.Containers[0].Image; image != "dataplane:1" {
		t.Errorf("mode Plan changed the image to %s", image)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = nil })
	b.pass()
	if changes := b.get().Status.Plan.Changes; len(changes) != 1 || !strings.HasSuffix(changes[0], "containers[peercached].image") {
		t.Errorf("changes are %q", changes)
	}
}
