// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/certs"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/policy"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// Injection says whether SGLang pods are connected when they are created, by the webhook or by an admission policy, and
// if not, why.
type Injection int

// The states of injection.
const (
	WebhookWorks Injection = iota
	WebhookDisabled
	WebhookMissing
	WebhookUntrusted
	PolicyWorks
	PolicyUnknown
	PolicyForbidden
	PolicyNotMade
	DriverMissing
	ImageVolumesRemoved
)

// Works says that SGLang pods are connected when they are created.
func (s Injection) Works() bool { return s == WebhookWorks || s == PolicyWorks }

// PolicyState is the state of a cluster with injection.by: AdmissionPolicy, derived from what the pass created or
// found.
func PolicyState(seen *Observed) Injection {
	ofKind := func(kind string) bool {
		return slices.ContainsFunc(seen.Objects, func(made v1alpha1.MadeObject) bool { return made.Kind == kind })
	}
	isPolicy := func(kind schema.GroupKind) bool { return slices.Contains(rights.PolicyKinds, kind.Kind) }
	switch {
	case slices.ContainsFunc(seen.ForbiddenKinds, isPolicy):
		return PolicyForbidden
	case slices.ContainsFunc(seen.UnknownKinds, isPolicy):
		return PolicyUnknown
	case ofKind(policy.Kind) && ofKind(policy.BindingKind):
		return PolicyWorks
	default:
		return PolicyNotMade
	}
}

// InjectionReady is the condition of that name. oldKernels names machines on which SGLang pods wait in vain for their
// socket; "" when there is none.
func InjectionReady(state Injection, m Missed, partly Pods, oldKernels string) metav1.Condition {
	const kind = v1alpha1.ConditionInjectionReady
	switch {
	case state == WebhookWorks && m.Count > 0:
		return missedPods("the webhook was not reached", m)
	case state == PolicyWorks && m.Count > 0:
		return missedPods("the admission policy was not in effect", m)
	case state.Works() && oldKernels != "":
		return newCondition(kind, metav1.ConditionFalse, "KernelTooOld", fmt.Sprintf("%s, so the CSI driver of injection.socket mounts no socket there, "+
			"and SGLang pods do not start there: upgrade the kernels, keep SGLang off these machines, or write injection.socket: HostPath", oldKernels))
	case state.Works() && partly.Count > 0:
		return newCondition(kind, metav1.ConditionFalse, reasonPodsPartly, fmt.Sprintf("%d pods have client and socket, but SGLang is not seen to "+
			"get the flags with which it uses them (%s): follow their annotation %s, and recreate them", partly.Count, partly, names.AnnotationNote))
	case state == PolicyWorks:
		return newCondition(kind, metav1.ConditionTrue, "PolicyReady", "SGLang pods with the label "+v1alpha1.LabelInject+
			" are connected by a MutatingAdmissionPolicy when they are created")
	case state == PolicyUnknown:
		return newCondition(kind, metav1.ConditionFalse, "PolicyUnknown", "injection.by asks for a MutatingAdmissionPolicy of "+
			"admissionregistration.k8s.io/v1, which this API server does not know: upgrade it to Kubernetes 1.36 or newer, or write "+
			"injection.by: Webhook")
	case state == PolicyForbidden:
		return newCondition(kind, metav1.ConditionFalse, "PolicyForbidden", "injection.by asks for a MutatingAdmissionPolicy, which the operator has no "+
			"permission to create: "+rights.GrantFor(schema.GroupKind{Kind: policy.Kind}, "")+", or write injection.by: Webhook")
	case state == PolicyNotMade:
		return newCondition(kind, metav1.ConditionFalse, "PolicyNotMade", "the MutatingAdmissionPolicy that injection.by asks for is not made "+
			"while the spec is not in effect: see the condition ConfigAccepted, and write mode: Apply")
	case state == DriverMissing:
		return newCondition(kind, metav1.ConditionFalse, "CSIDriverMissing", fmt.Sprintf("injection.socket asks for CSIDriver %s, which does not "+
			"exist, or is ready on no machine, so SGLang pods are left alone: install it (csi.enabled of the Helm chart, or config/csi), "+
			"see why its pods do not start (kubectl describe daemonset peercache-csi), or write injection.socket: HostPath", plan.CSIDriver))
	case state == ImageVolumesRemoved:
		return newCondition(kind, metav1.ConditionFalse, "ImageVolumesRemoved", "injection.client.delivery ImageVolume gives SGLang pods a "+
			"volume that this API server removes, so SGLang does not find the package there: upgrade to Kubernetes 1.35 or newer, enable "+
			"the feature gate ImageVolume of 1.33 and 1.34, or write delivery: InitContainer")
	case state == WebhookDisabled:
		return newCondition(kind, metav1.ConditionFalse, "WebhookDisabled", "the operator runs with --webhook=disabled, so SGLang pods are not "+
			"connected: enable it (webhook.enabled of the Helm chart), write injection.by: AdmissionPolicy, or connect them by hand")
	case state == WebhookMissing:
		return newCondition(kind, metav1.ConditionFalse, "WebhookMissing", fmt.Sprintf("MutatingWebhookConfiguration %s does not exist, so "+
			"SGLang pods are not connected: install it again, from the Helm chart or config/webhook", certs.ConfigurationName))
	case state == WebhookUntrusted:
		return newCondition(kind, metav1.ConditionFalse, "WebhookUntrusted", fmt.Sprintf("MutatingWebhookConfiguration %s has no CA, so the API "+
			"server skips the webhook. The operator (or cert-manager, where it makes the certificate) writes the CA within a minute; "+
			"if not, read its log", certs.ConfigurationName))
	default:
		return newCondition(kind, metav1.ConditionTrue, "WebhookReady", "SGLang pods with the label "+v1alpha1.LabelInject+
			" are connected when they are created")
	}
}

// injectionReady adds what an operator that watches some namespaces only cannot do.
func injectionReady(seen *Observed) metav1.Condition {
	condition := InjectionReady(seen.Injection, seen.Missed, seen.Partly, seen.OldKernels)
	if len(seen.Namespaces) == 0 || seen.Injection != WebhookWorks {
		return condition
	}
	condition.Message += fmt.Sprintf(" in the namespaces that the operator watches (%s), and in no other", strings.Join(seen.Namespaces, ", "))
	if plan.SocketByDriver(seen.Cluster.Spec.Injection) {
		condition.Message += "; the operator has no permission to check whether CSIDriver " + plan.CSIDriver + " is installed"
	}
	return condition
}

// Pods are SGLang pods that ask for the cluster and have something in common.
type Pods struct {
	Count int32
	Names []string // some of them, oldest first
}

// String names some of the pods, and counts the others.
func (p Pods) String() string {
	text := strings.Join(p.Names, ", ")
	if more := int(p.Count) - len(p.Names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Missed are the pods that were not connected.
type Missed struct {
	Pods
	// BeingRecreated says that the operator recreates missed pods, so the next pass comes soon. Obstacle says why the
	// first of them cannot be recreated now; "" when it can.
	BeingRecreated bool
	Obstacle       string
}

const (
	reasonPodsMissed = "PodsMissed"
	reasonPodsPartly = "PodsPartly"
)

// missedPods is the condition InjectionReady while pods are missed.
func missedPods(because string, m Missed) metav1.Condition {
	remedy := "delete them so that they are recreated, or write spec.injection.missedPods: Recreate"
	if m.BeingRecreated {
		remedy = "they are recreated one by one"
		if m.Obstacle != "" {
			remedy = m.Obstacle + "; delete it by hand"
		}
	}
	return newCondition(v1alpha1.ConditionInjectionReady, metav1.ConditionFalse, reasonPodsMissed, fmt.Sprintf(
		"%d pods run without PeerCache although they ask for it, because %s when they were created or their "+
			"label came later (%s): %s", m.Count, because, m.Pods, remedy))
}
