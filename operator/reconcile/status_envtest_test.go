// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/status"
)

func TestClusterLifecycle(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
	b.condition("Ready", metav1.ConditionFalse, "WaitingForController", "")
	b.setCounts("default", 0, 0, 0)
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "NoNodes", "spec.nodes.selector")
	b.condition("Available", metav1.ConditionFalse, "NoMembers", "")

	pods := b.startPods("default", true, false)
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "MembersStarting", "1/2")
	b.condition("Progressing", metav1.ConditionTrue, "Starting", "1/2")
	b.condition("Degraded", metav1.ConditionFalse, "NoFaults", "")

	current := &corev1.Pod{}
	b.read(pods[1].Name, current) // the operator has labelled it meanwhile
	current.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "peercached", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
	b.must(b.Status().Update(t.Context(), current))
	b.events()
	b.pass()
	b.condition("Degraded", metav1.ConditionTrue, "CrashLoopBackOff", "pod demo-default-b: it exits again and again")
	b.condition("Available", metav1.ConditionTrue, "Serving", "")
	b.condition("Ready", metav1.ConditionFalse, "MembersBroken", "kubectl logs --previous")
	recorded := b.events()
	if !slices.ContainsFunc(recorded, func(e string) bool { return strings.HasPrefix(e, "Warning CrashLoopBackOff") }) {
		t.Errorf("no warning among %q", recorded)
	}
	b.pass()
	if again := b.events(); len(again) != 0 {
		t.Errorf("events without a transition: %q", again)
	}
	since := meta.FindStatusCondition(b.get().Status.Conditions, "ConfigAccepted").LastTransitionTime

	current.Status.ContainerStatuses = nil
	current.Status.Conditions[0].Status = corev1.ConditionTrue
	b.must(b.Status().Update(t.Context(), current))
	b.setCounts("default", 2, 2, 2)
	b.reconciler.Now = func() time.Time { return time.Now().Add(10 * time.Second) }
	b.pass()
	b.condition("Degraded", metav1.ConditionFalse, "NoFaults", "")
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "2/2 members serve")
	if now := meta.FindStatusCondition(b.get().Status.Conditions, "ConfigAccepted").LastTransitionTime; !now.Equal(&since) {
		t.Error("lastTransitionTime moved without a transition")
	}
}

func TestRejectedPodsStayDegraded(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	pods := b.startPods("default", true, false)
	b.read(pods[1].Name, &pods[1])
	pods[1].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError", Message: "no locality"}
	b.must(b.Status().Update(t.Context(), &pods[1]))
	b.pass()
	b.condition("Degraded", metav1.ConditionTrue, "NUMAMisaligned", "the topology manager of ")
	b.condition("Ready", metav1.ConditionFalse, "MembersBroken", "best-effort")

	b.events()
	b.must(b.Delete(t.Context(), &pods[1], client.GracePeriodSeconds(0)))
	b.pass()
	b.condition("Degraded", metav1.ConditionTrue, "NUMAMisaligned", "the topology manager of ")
	b.condition("Ready", metav1.ConditionFalse, "MembersBroken", "best-effort")
	if recorded := b.events(); len(recorded) != 0 {
		t.Errorf("events while the next pod is awaited: %q", recorded)
	}

	b.setCounts("default", 1, 1, 1)
	b.pass()
	b.condition("Degraded", metav1.ConditionFalse, "NoFaults", "")
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "1/1")
}

func TestProblemKeepsRunningNodes(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = []v1alpha1.Rail{hostRail("a", "one")} })
	b.pass()
	b.setCounts("one", 1, 1, 1)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "")

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = append(s.Rails, hostRail("b", "two")) })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "HostPortConflict", "into one rails[].group")
	b.condition("Ready", metav1.ConditionFalse, "ConfigNotAccepted", "into one rails[].group")
	b.daemonSet("one")
	if status := b.get().Status; status.Members != "1/1" {
		t.Errorf("what runs is not shown any more: %+v", status)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = s.Rails[:1] })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "")
}

func TestRefusalOfTheAPIServerIsReported(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Tolerations = []corev1.Toleration{{Key: "k", Operator: "Maybe"}}
	})
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Rejected", "tolerations[0].operator")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Nodes.Tolerations = nil })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
}

func TestObjectsOfOthersAreNotTakenOver(t *testing.T) {
	b := newBench(t)
	foreign := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "demo-config"}, Data: map[string]string{"mine": "1"},
	}
	b.must(b.Create(t.Context(), foreign))
	b.cluster()
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "NameConflict", "rename or delete it")
	b.read("demo-config", foreign)
	if len(foreign.Data) != 1 || foreign.Data["mine"] != "1" {
		t.Errorf("a ConfigMap of somebody else was changed: %v", foreign.Data)
	}
	b.must(b.Delete(t.Context(), foreign))
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
}

func TestDiscoveryLabels(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Replicas = 2 })
	b.pass()
	b.startPods("default", false, true, true)
	b.pass()
	if got := b.hosts(); got != "b c" {
		t.Errorf("hosts are %q, want the ready ones", got)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}
	lost := &corev1.Pod{}
	b.read("demo-default-b", lost)
	b.must(b.Delete(t.Context(), lost, client.GracePeriodSeconds(0)))
	b.pass()
	if got := b.hosts(); got != "a c" {
		t.Errorf("hosts are %q after b was deleted", got)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Replicas = 1 })
	b.pass()
	if got := b.hosts(); got != "a" && got != "c" {
		t.Errorf("hosts are %q, want one", got)
	}
}

func TestSilentNodesChangeNothing(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.startPods("default", true, true)
	b.fleet.answers = []fleet.NodeStatus{{
		Members: []fleet.Member{{ID: "x", State: "active"}, {ID: "y", State: "active"}},
		Fleet:   &fleet.Fleet{Members: 2, Engines: 3, RecentLookedUp: 10, RecentDelivered: 9},
	}}
	b.pass() // labels the hosts, which later passes ask
	b.reconciler.Now = func() time.Time { return time.Now().Add(askInterval) }
	b.pass()
	if members := b.get().Status.ActiveMembers; members != 2 {
		t.Errorf("members are %d", members)
	}
	if len(b.fleet.asked) != 2 || !strings.HasSuffix(b.fleet.asked[0], ":31997") {
		t.Errorf("asked %q", b.fleet.asked)
	}
	b.fleet.answers[0].Fleet = &fleet.Fleet{Members: 2, Engines: 4, RecentLookedUp: 1000, RecentDelivered: 5}
	b.reconciler.Now = func() time.Time { return time.Now().Add(2 * askInterval) }
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("what engines do writes %q", wrote)
	}
	b.condition("RailsHealthy", metav1.ConditionTrue, "NotApplicable", "TCP")
	b.condition("NUMAAligned", metav1.ConditionTrue, "NotApplicable", "")
	b.condition("DisksHealthy", metav1.ConditionTrue, "NotApplicable", "")
	b.fleet.answers, b.fleet.err = nil, errors.New("timeout")
	b.reconciler.Now = func() time.Time { return time.Now().Add(3 * askInterval) }
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("members that do not answer changed %q", wrote)
	}
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "")
}

// TestDiscoveryKeepsAHostWithAStaleCache: the cache may not know yet that a pod is gone or has lost its label. The last host must
// keep its label.
func TestDiscoveryKeepsAHostWithAStaleCache(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Replicas = 1 })
	b.pass()
	pods := b.startPods("default", true, false, true)
	cached := func(hosts ...int) *pass {
		p := &pass{Observed: status.Observed{Cluster: cluster}}
		for i, pod := range pods {
			pod = *pod.DeepCopy()
			for i := range pod.Status.Conditions {
				pod.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
			}
			if slices.Contains(hosts, i) {
				pod.Labels[v1alpha1.LabelDiscovery] = v1alpha1.DiscoveryHost
			}
			p.Pods = append(p.Pods, pod)
		}
		return p
	}
	place := func(p *pass) {
		t.Helper()
		b.must(b.reconciler.placeDiscovery(t.Context(), p))
	}
	if _, err := b.reconciler.labelHost(t.Context(), pods[1].DeepCopy(), true); err != nil {
		t.Fatal(err)
	}

	place(cached(0, 1)) // a is a host only in the cache
	if got := b.hosts(); got != "a" {
		t.Errorf("hosts are %q, want a: b was lost, and a stays", got)
	}

	b.must(b.Delete(t.Context(), &pods[2], client.GracePeriodSeconds(0)))
	b.must(b.Delete(t.Context(), &pods[0], client.GracePeriodSeconds(0)))
	if _, err := b.reconciler.labelHost(t.Context(), pods[1].DeepCopy(), true); err != nil {
		t.Fatal(err)
	}
	place(cached(1)) // b is lost, and a would replace it, but is gone
	if got := b.hosts(); got != "b" {
		t.Errorf("hosts are %q, want b until the cache knows who is left", got)
	}
	pods = pods[1:2]
	place(cached(0))
	if got := b.hosts(); got != "b" {
		t.Errorf("hosts are %q, want b, the only pod", got)
	}
}
