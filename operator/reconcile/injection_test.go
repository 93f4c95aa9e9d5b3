// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestInjectionReady(t *testing.T) {
	for state, want := range map[injectionState]struct {
		status       metav1.ConditionStatus
		reason, says string
	}{
		webhookWorks:     {metav1.ConditionTrue, "WebhookReady", "peercache.io/inject"},
		webhookDisabled:  {metav1.ConditionFalse, "WebhookDisabled", "webhook.enabled of the Helm chart"},
		webhookMissing:   {metav1.ConditionFalse, "WebhookMissing", "peercache-inject does not exist"},
		webhookUntrusted: {metav1.ConditionFalse, "WebhookUntrusted", "has no CA"},
		policyWorks:      {metav1.ConditionTrue, "PolicyReady", "by a MutatingAdmissionPolicy"},
		policyUnknown:    {metav1.ConditionFalse, "PolicyUnknown", "Kubernetes 1.36 or newer"},
		policyNotMade:    {metav1.ConditionFalse, "PolicyNotMade", "mode: Apply"},
		driverMissing:    {metav1.ConditionFalse, "CSIDriverMissing", "CSIDriver csi.peercache.io"},
	} {
		got := injectionReady(state, missed{}, "")
		if got.Status != want.status || got.Reason != want.reason || !strings.Contains(got.Message, want.says) {
			t.Errorf("state %d gives %+v, want %+v", state, got, want)
		}
	}
}

// Old kernels matter where pods are connected at all.
func TestInjectionReadyWithOldKernels(t *testing.T) {
	for state, reason := range map[injectionState]string{
		webhookWorks: "KernelTooOld", policyWorks: "KernelTooOld", webhookMissing: "WebhookMissing", driverMissing: "CSIDriverMissing",
	} {
		got := injectionReady(state, missed{}, "1 of 2 machines have a Linux before 5.12 (kernel 5.4: a)")
		if got.Status != metav1.ConditionFalse || got.Reason != reason {
			t.Errorf("state %d gives %+v, want %s", state, got, reason)
		}
		if reason == "KernelTooOld" && !strings.Contains(got.Message, "(kernel 5.4: a)") {
			t.Errorf("the message is %q", got.Message)
		}
	}
}

func TestLookAtPolicy(t *testing.T) {
	policy, binding := v1alpha1.MadeObject{Kind: "MutatingAdmissionPolicy"}, v1alpha1.MadeObject{Kind: "MutatingAdmissionPolicyBinding"}
	absent := []schema.GroupKind{{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}}
	other := []schema.GroupKind{{Group: "monitoring.coreos.com", Kind: "PodMonitor"}}
	for name, test := range map[string]struct {
		pass pass
		want injectionState
	}{
		"made":          {pass{objects: []v1alpha1.MadeObject{policy, binding}, absent: other}, policyWorks},
		"without force": {pass{objects: []v1alpha1.MadeObject{policy}}, policyNotMade},
		"not made":      {pass{}, policyNotMade},
		"unknown":       {pass{objects: []v1alpha1.MadeObject{binding}, absent: absent}, policyUnknown},
	} {
		if got := lookAtPolicy(&test.pass); got != test.want {
			t.Errorf("%s: state %d, want %d", name, got, test.want)
		}
	}
}
