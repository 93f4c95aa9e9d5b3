// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/certs"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// injectionState is whether SGLang pods are connected when they are created, be it by the webhook or by a policy, and what keeps them
// from it.
type injectionState int

const (
	webhookWorks injectionState = iota
	webhookDisabled
	webhookMissing
	webhookUntrusted
	policyWorks
	policyUnknown
	policyNotMade
	driverMissing
)

// works says that SGLang pods are connected when they are created.
func (s injectionState) works() bool { return s == webhookWorks || s == policyWorks }

// lookAtInjection finds out what keeps SGLang pods of a cluster from being connected.
func (r *Reconciler) lookAtInjection(ctx context.Context, p *pass) (err error) {
	p.injection = lookAtPolicy(p)
	if p.cluster.Spec.Injection.By != v1alpha1.InjectionByPolicy {
		p.injection, err = r.lookAtWebhook(ctx)
	}
	if err == nil && p.injection.works() && p.driverMissing {
		p.injection = driverMissing
	}
	return err
}

// lookAtPolicy goes by what the pass has made or found.
func lookAtPolicy(p *pass) injectionState {
	ofKind := func(kind string) bool {
		return slices.ContainsFunc(p.objects, func(made v1alpha1.MadeObject) bool { return made.Kind == kind })
	}
	switch {
	case slices.ContainsFunc(p.absent, func(absent schema.GroupKind) bool { return slices.Contains(policyKinds, absent.Kind) }):
		return policyUnknown
	case ofKind(inject.PolicyKind) && ofKind(inject.PolicyBindingKind):
		return policyWorks
	default:
		return policyNotMade
	}
}

// lookAtWebhook finds out whether the API server asks the operator about SGLang pods.
func (r *Reconciler) lookAtWebhook(ctx context.Context) (injectionState, error) {
	if r.WebhookDisabled {
		return webhookDisabled, nil
	}
	// By the webhook's own name: OLM makes up that of the configuration.
	var all admissionv1.MutatingWebhookConfigurationList
	if err := r.Client.List(ctx, &all); err != nil {
		return webhookMissing, fmt.Errorf("looking for the MutatingWebhookConfiguration of %s: %w", certs.WebhookName, err)
	}
	state := webhookMissing
	for _, configuration := range all.Items {
		for _, webhook := range configuration.Webhooks {
			switch {
			case webhook.Name != certs.WebhookName:
			case len(webhook.ClientConfig.CABundle) == 0:
				return webhookUntrusted, nil
			default:
				state = webhookWorks
			}
		}
	}
	return state, nil
}

// injectionReady says whether SGLang pods that ask for the cluster get connected when they are created.
// oldKernels names machines whose SGLang pods wait for their socket in vain.
func injectionReady(state injectionState, m missed, oldKernels string) metav1.Condition {
	const kind = v1alpha1.ConditionInjectionReady
	switch {
	case state == webhookWorks && m.count > 0:
		return missedPods("the webhook was not reached", m)
	case state == policyWorks && m.count > 0:
		return missedPods("the admission policy was not in effect", m)
	case state.works() && oldKernels != "":
		return is(kind, metav1.ConditionFalse, "KernelTooOld", fmt.Sprintf("%s, so the CSI driver of injection.socket mounts no socket there, "+
			"and SGLang pods do not start there: upgrade the kernels, keep SGLang off these machines, or write injection.socket: HostPath", oldKernels))
	case state == policyWorks:
		return is(kind, metav1.ConditionTrue, "PolicyReady", "SGLang pods with the label "+v1alpha1.LabelInject+
			" are connected by a MutatingAdmissionPolicy when they are created")
	case state == policyUnknown:
		return is(kind, metav1.ConditionFalse, "PolicyUnknown", "injection.by asks for a MutatingAdmissionPolicy of "+
			"admissionregistration.k8s.io/v1, which this API server does not know: upgrade it to Kubernetes 1.36 or newer, or write "+
			"injection.by: Webhook")
	case state == policyNotMade:
		return is(kind, metav1.ConditionFalse, "PolicyNotMade", "the MutatingAdmissionPolicy that injection.by asks for is not made "+
			"while the spec is not in effect: see the condition ConfigAccepted, and write mode: Apply")
	case state == driverMissing:
		return is(kind, metav1.ConditionFalse, "CSIDriverMissing", fmt.Sprintf("injection.socket asks for CSIDriver %s, which does not "+
			"exist, so SGLang pods are left alone: install it (csi.enabled of the Helm chart, or config/csi), or write injection.socket: "+
			"HostPath", plan.CSIDriver))
	case state == webhookDisabled:
		return is(kind, metav1.ConditionFalse, "WebhookDisabled", "the operator runs with --webhook=disabled, so SGLang pods are not "+
			"connected: enable it (webhook.enabled of the Helm chart), write injection.by: AdmissionPolicy, or connect them by hand")
	case state == webhookMissing:
		return is(kind, metav1.ConditionFalse, "WebhookMissing", fmt.Sprintf("MutatingWebhookConfiguration %s does not exist, so "+
			"SGLang pods are not connected: install it again, from the Helm chart or config/webhook", certs.ConfigurationName))
	case state == webhookUntrusted:
		return is(kind, metav1.ConditionFalse, "WebhookUntrusted", fmt.Sprintf("MutatingWebhookConfiguration %s has no CA, so the API "+
			"server passes over the webhook: wait until the operator, or cert-manager where it makes the certificate, has written it, and "+
			"see the log of either if that takes more than a minute", certs.ConfigurationName))
	default:
		return is(kind, metav1.ConditionTrue, "WebhookReady", "SGLang pods with the label "+v1alpha1.LabelInject+
			" are connected when they are created")
	}
}
