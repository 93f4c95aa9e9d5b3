// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestInjectionReady(t *testing.T) {
	for state, want := range map[Injection]struct {
		status       metav1.ConditionStatus
		reason, says string
	}{
		WebhookWorks:        {metav1.ConditionTrue, "WebhookReady", "peercache.io/inject"},
		WebhookDisabled:     {metav1.ConditionFalse, "WebhookDisabled", "webhook.enabled of the Helm chart"},
		WebhookMissing:      {metav1.ConditionFalse, "WebhookMissing", "peercache-inject does not exist"},
		WebhookUntrusted:    {metav1.ConditionFalse, "WebhookUntrusted", "has no CA"},
		PolicyWorks:         {metav1.ConditionTrue, "PolicyReady", "by a MutatingAdmissionPolicy"},
		PolicyUnknown:       {metav1.ConditionFalse, "PolicyUnknown", "Kubernetes 1.36 or newer"},
		PolicyNotMade:       {metav1.ConditionFalse, "PolicyNotMade", "mode: Apply"},
		ImageVolumesRemoved: {metav1.ConditionFalse, "ImageVolumesRemoved", "Kubernetes 1.35 or newer"},
		DriverMissing:       {metav1.ConditionFalse, "CSIDriverMissing", "CSIDriver csi.peercache.io"},
	} {
		got := InjectionReady(state, Missed{}, Pods{}, "")
		if got.Status != want.status || got.Reason != want.reason || !strings.Contains(got.Message, want.says) {
			t.Errorf("state %d gives %+v, want %+v", state, got, want)
		}
	}
}

// TestInjectionReadyInSomeNamespaces: an operator that watches some namespaces says so.
func TestInjectionReadyInSomeNamespaces(t *testing.T) {
	cluster := &v1alpha1.PeerCacheCluster{}
	seen := &Observed{Cluster: cluster, Injection: WebhookWorks}
	if got := injectionReady(seen); got != InjectionReady(WebhookWorks, Missed{}, Pods{}, "") {
		t.Errorf("in all namespaces: %+v", got)
	}
	seen.Namespaces = []string{"a", "b"}
	if got := injectionReady(seen); got.Reason != "WebhookReady" || !strings.HasSuffix(got.Message, "watches (a, b), and in no other") {
		t.Errorf("in two namespaces: %+v", got)
	}
	cluster.Spec.Injection.Socket = v1alpha1.SocketCSI
	if got := injectionReady(seen); !strings.HasSuffix(got.Message, "the operator has no permission to check whether CSIDriver csi.peercache.io is installed") {
		t.Errorf("with the driver: %+v", got)
	}
	seen.Injection = WebhookMissing
	if got := injectionReady(seen); got.Reason != "WebhookMissing" || strings.Contains(got.Message, "watches") {
		t.Errorf("without a webhook: %+v", got)
	}
}

// TestInjectionReadyWithOldKernels: old kernels matter only where pods are connected at all.
func TestInjectionReadyWithOldKernels(t *testing.T) {
	for state, reason := range map[Injection]string{
		WebhookWorks: "KernelTooOld", PolicyWorks: "KernelTooOld", WebhookMissing: "WebhookMissing", DriverMissing: "CSIDriverMissing",
	} {
		got := InjectionReady(state, Missed{}, Pods{}, "1 of 2 machines have a Linux before 5.12 (kernel 5.4: a)")
		if got.Status != metav1.ConditionFalse || got.Reason != reason {
			t.Errorf("state %d gives %+v, want %s", state, got, reason)
		}
		if reason == "KernelTooOld" && !strings.Contains(got.Message, "(kernel 5.4: a)") {
			t.Errorf("the message is %q", got.Message)
		}
	}
}

// TestInjectionReadyWithPartlyConnectedPods: they matter only where pods are connected at all.
func TestInjectionReadyWithPartlyConnectedPods(t *testing.T) {
	for state, reason := range map[Injection]string{
		WebhookWorks: "PodsPartly", PolicyWorks: "PodsPartly", WebhookMissing: "WebhookMissing", DriverMissing: "CSIDriverMissing",
	} {
		got := InjectionReady(state, Missed{}, Pods{2, []string{"serving/a"}}, "")
		if got.Status != metav1.ConditionFalse || got.Reason != reason {
			t.Errorf("state %d gives %+v, want %s", state, got, reason)
		}
		if reason == "PodsPartly" && !strings.Contains(got.Message, "2 pods have client and socket, but SGLang is not seen to get the flags with "+
			"which it uses them (serving/a and 1 more): follow their annotation peercache.io/inject-note") {
			t.Errorf("the message is %q", got.Message)
		}
	}
}

func TestPolicyState(t *testing.T) {
	policy, binding := v1alpha1.MadeObject{Kind: "MutatingAdmissionPolicy"}, v1alpha1.MadeObject{Kind: "MutatingAdmissionPolicyBinding"}
	absent := []schema.GroupKind{{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}}
	other := []schema.GroupKind{{Group: "monitoring.coreos.com", Kind: "PodMonitor"}}
	for name, test := range map[string]struct {
		seen Observed
		want Injection
	}{
		"made":          {Observed{Objects: []v1alpha1.MadeObject{policy, binding}, UnknownKinds: other}, PolicyWorks},
		"without force": {Observed{Objects: []v1alpha1.MadeObject{policy}}, PolicyNotMade},
		"not made":      {Observed{}, PolicyNotMade},
		"unknown":       {Observed{Objects: []v1alpha1.MadeObject{binding}, UnknownKinds: absent}, PolicyUnknown},
	} {
		if got := PolicyState(&test.seen); got != test.want {
			t.Errorf("%s: state %d, want %d", name, got, test.want)
		}
	}
}
