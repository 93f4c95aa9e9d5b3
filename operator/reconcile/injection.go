// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/certs"
)

// webhookState is what keeps SGLang pods from being connected, if anything.
type webhookState int

const (
	webhookWorks webhookState = iota
	webhookDisabled
	webhookMissing
	webhookUntrusted
)

// lookAtWebhook finds out whether the API server asks the operator about SGLang pods.
func (r *Reconciler) lookAtWebhook(ctx context.Context) (webhookState, error) {
	if r.WebhookDisabled {
		return webhookDisabled, nil
	}
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: certs.ConfigurationName}, configuration)
	switch {
	case apierrors.IsNotFound(err):
		return webhookMissing, nil
	case err != nil:
		return webhookMissing, fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", certs.ConfigurationName, err)
	}
	for _, webhook := range configuration.Webhooks {
		if len(webhook.ClientConfig.CABundle) == 0 {
			return webhookUntrusted, nil
		}
	}
	return webhookWorks, nil
}

// injectionReady says whether SGLang pods that ask for the cluster get connected when they are created.
func injectionReady(state webhookState, m missed) metav1.Condition {
	const kind = v1alpha1.ConditionInjectionReady
	switch {
	case state == webhookWorks && m.count > 0:
		return missedPods(m)
	case state == webhookDisabled:
		return is(kind, metav1.ConditionFalse, "WebhookDisabled", "the operator runs with --webhook=disabled, so SGLang pods are not "+
			"connected: enable it (webhook.enabled of the Helm chart), or connect them by hand")
	case state == webhookMissing:
		return is(kind, metav1.ConditionFalse, "WebhookMissing", fmt.Sprintf("MutatingWebhookConfiguration %s does not exist, so "+
			"SGLang pods are not connected: install it again, from the Helm chart or config/webhook", certs.ConfigurationName))
	case state == webhookUntrusted:
		return is(kind, metav1.ConditionFalse, "WebhookUntrusted", fmt.Sprintf("MutatingWebhookConfiguration %s has no CA, so the API "+
			"server passes over the webhook: wait until the operator has written it, and see its log if that takes more than a minute",
			certs.ConfigurationName))
	default:
		return is(kind, metav1.ConditionTrue, "WebhookReady", "SGLang pods with the label "+v1alpha1.LabelInject+
			" are connected when they are created")
	}
}
