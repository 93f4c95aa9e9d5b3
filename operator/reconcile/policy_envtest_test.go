// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/policy"
)

// policySince is the first minor version of Kubernetes that serves MutatingAdmissionPolicy in v1.
const policySince = 36

func byPolicy(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.By = v1alpha1.InjectionByPolicy }

// policyBench has a cluster with a policy. The policy has no namespace, so the test deletes it at its end.
func policyBench(t *testing.T, changes ...func(*v1alpha1.PeerCacheClusterSpec)) *bench {
	t.Helper()
	testenv.Since(t, policySince, "MutatingAdmissionPolicy in v1")
	b := newBench(t)
	b.reconciler.Injection = inject.Options{ClientImage: "client:1"}
	b.cluster(append(changes, byPolicy)...)
	t.Cleanup(func() {
		key := client.ObjectKey{Namespace: b.namespace, Name: "demo"}
		if err := b.reconciler.applier().DeletePolicies(context.WithoutCancel(t.Context()), key); err != nil {
			t.Error(err)
		}
	})
	return b
}

// hasPolicy is true where both objects exist. It fails where only one does.
func (b *bench) hasPolicy() bool {
	b.Helper()
	key := client.ObjectKey{Name: "peercache." + b.namespace + ".demo"}
	found := 0
	for _, object := range []client.Object{&admissionv1.MutatingAdmissionPolicy{}, &admissionv1.MutatingAdmissionPolicyBinding{}} {
		err := b.Get(b.Context(), key, object)
		if err == nil {
			found++
		} else if !apierrors.IsNotFound(err) {
			b.Fatal(err)
		}
	}
	if found == 1 {
		b.Error("there is only one of policy and binding")
	}
	return found == 2
}

// connects is true where the API server connects a pod.
func (b *bench) connects() (bool, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "engine", Labels: map[string]string{v1alpha1.LabelInject: "demo"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "sglang", Args: []string{"python3", "-m", "sglang.launch_server", "--model-path", "/models"},
		}}},
	}
	err := b.Create(b.Context(), pod, client.DryRunAll)
	return pod.Annotations[names.AnnotationInjected] == "demo" && len(pod.Spec.InitContainers) == 1 &&
		pod.Spec.InitContainers[0].Image == "client:1", err
}

func (b *bench) untilConnects(want bool) {
	b.Helper()
	testenv.Eventually(b.T, func() error {
		if got, err := b.connects(); err != nil || got != want {
			return fmt.Errorf("pods are connected: %t (error %w)", got, err)
		}
		return nil
	})
}

func TestPolicyFollowsItsCluster(t *testing.T) {
	b := policyBench(t)
	b.pass()
	b.condition("InjectionReady", metav1.ConditionTrue, "PolicyReady", "MutatingAdmissionPolicy")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}
	b.untilConnects(true)

	stored := &admissionv1.MutatingAdmissionPolicy{}
	b.must(b.Get(t.Context(), client.ObjectKey{Name: policy.Name(b.namespace, "demo")}, stored))
	rules := stored.Spec.Variables
	stored.Spec.Variables = append(slices.Clone(rules), admissionv1.Variable{Name: "theirs", Expression: "1"})
	b.must(b.Update(t.Context(), stored))
	b.events()
	b.pass()
	b.must(b.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
	if len(stored.Spec.Variables) != len(rules) {
		t.Errorf("the policy keeps what somebody else wrote: %d variables instead of %d", len(stored.Spec.Variables), len(rules))
	}
	if events := strings.Join(b.events(), "\n"); !strings.Contains(events, "Repaired MutatingAdmissionPolicy peercache."+b.namespace+".demo ") {
		t.Errorf("events: %s", events)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.By = v1alpha1.InjectionByWebhook })
	b.pass()
	if b.hasPolicy() {
		t.Error("the policy stays, although the spec no longer asks for it")
	}
	b.untilConnects(false)
	b.change(byPolicy)
	b.pass()
	b.must(b.Delete(t.Context(), b.get()))
	b.pass()
	if b.hasPolicy() {
		t.Error("the policy outlives its cluster")
	}
}

// TestPolicyOnOlderKubernetes: the cluster says which Kubernetes its policy needs, and its members run all the same.
func TestPolicyOnOlderKubernetes(t *testing.T) {
	if minor := testenv.Minor(t); minor >= policySince {
		t.Skipf("Kubernetes 1.%d serves the policy", minor)
	}
	b := newBench(t)
	b.cluster(byPolicy)
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "PolicyUnknown", "Kubernetes 1.36 or newer")
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
	b.daemonSet("default")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}
	b.must(b.reconciler.applier().DeleteOrphanedPolicies(t.Context()))
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.By = v1alpha1.InjectionByWebhook })
	b.pass()
	b.must(b.Delete(t.Context(), b.get()))
	b.pass()
}

// TestPolicyFollowsTheDriver checks that pods are left alone while the CSI driver is not installed, and that a
// condition says so.
func TestPolicyFollowsTheDriver(t *testing.T) {
	b := policyBench(t, func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Socket = v1alpha1.SocketCSI })
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "CSIDriverMissing", "csi.enabled of the Helm chart")
	rules := func() string {
		stored := &admissionv1.MutatingAdmissionPolicy{}
		b.must(b.Get(t.Context(), client.ObjectKey{Name: policy.Name(b.namespace, "demo")}, stored))
		return fmt.Sprint(stored.Spec.Variables)
	}
	const refusal = "by the CSI driver csi.peercache.io"
	if !strings.Contains(rules(), refusal) {
		t.Error("the policy would give pods a volume that nobody mounts")
	}
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.peercache.io"}}
	b.must(b.Create(t.Context(), driver))
	t.Cleanup(func() {
		if err := b.Delete(context.WithoutCancel(t.Context()), driver); err != nil {
			t.Error("deleting the driver:", err)
		}
	})
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "CSIDriverMissing", "ready on no machine")
	machineWithDriver := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-csi"}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: "csi.peercache.io", NodeID: "one"}}}}
	b.must(b.Create(t.Context(), machineWithDriver))
	t.Cleanup(func() {
		if err := b.Delete(context.WithoutCancel(t.Context()), machineWithDriver); err != nil {
			t.Error("deleting the machine:", err)
		}
	})
	b.pass()
	b.condition("InjectionReady", metav1.ConditionTrue, "PolicyReady", "MutatingAdmissionPolicy")
	if strings.Contains(rules(), refusal) {
		t.Error("the policy leaves pods alone although the driver is there")
	}

	b.machine("old", corev1.ResourceList{})
	machine := &corev1.Node{}
	b.must(b.Get(t.Context(), client.ObjectKey{Name: b.namespace + "-old"}, machine))
	machine.Status.NodeInfo.KernelVersion = "5.4.0-150-generic"
	b.must(b.Status().Update(t.Context(), machine))
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "KernelTooOld", "a Linux before 5.12 (kernel 5.4: "+machine.Name+")")
}

func TestPolicyIsNotMadeInModePlan(t *testing.T) {
	b := policyBench(t, func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode = v1alpha1.ModePlan })
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "PolicyNotMade", "mode: Apply")
	name := policy.Name(b.namespace, "demo")
	for _, want := range []string{"create MutatingAdmissionPolicy " + name, "create MutatingAdmissionPolicyBinding " + name} {
		if changes := b.get().Status.Plan.Changes; !slices.Contains(changes, want) {
			t.Errorf("the plan has no %q: %q", want, changes)
		}
	}
	if b.hasPolicy() {
		t.Error("mode Plan made a policy")
	}
}

// TestOrphanedPolicyIsDeleted deletes a cluster while no operator runs. Its policy then does nothing, and the next operator deletes
// it.
func TestOrphanedPolicyIsDeleted(t *testing.T) {
	gone, stays := policyBench(t), policyBench(t)
	gone.pass()
	stays.pass()
	gone.untilConnects(true)
	gone.must(gone.Delete(t.Context(), gone.get()))
	gone.untilConnects(false)
	foreign := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "peercache." + gone.namespace + ".foreign"},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "nobody"},
	}
	gone.must(gone.Create(t.Context(), foreign))
	t.Cleanup(func() {
		if err := gone.Delete(context.WithoutCancel(t.Context()), foreign); err != nil {
			t.Error("deleting somebody else's binding:", err)
		}
	})

	gone.must(gone.reconciler.applier().DeleteOrphanedPolicies(t.Context()))
	if gone.hasPolicy() {
		t.Error("the policy of a cluster that is gone stays")
	}
	if !stays.hasPolicy() {
		t.Error("the policy of a cluster that exists was deleted")
	}
}

// TestPoliciesOfOthersAreKept checks that a policy that the operator did not make is not changed.
func TestPoliciesOfOthersAreKept(t *testing.T) {
	b := policyBench(t)
	theirs := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name(b.namespace, "demo")},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "theirs"},
	}
	b.must(b.Create(t.Context(), theirs))
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "NameConflict", "MutatingAdmissionPolicyBinding "+theirs.Name+" exists")
	b.must(b.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	if theirs.Spec.PolicyName != "theirs" {
		t.Error("the operator took over somebody else's binding")
	}
	b.must(b.Delete(t.Context(), theirs))
}
