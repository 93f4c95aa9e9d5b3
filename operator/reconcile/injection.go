// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/certs"
	"github.com/peercache/peercache/operator/status"
)

// checkInjection finds out whether SGLang pods of the cluster are connected, and if not, why.
func (r *Reconciler) checkInjection(ctx context.Context, p *pass) (err error) {
	p.Injection = status.PolicyState(&p.Observed)
	if p.Cluster.Spec.Injection.By != v1alpha1.InjectionByPolicy {
		p.Injection, err = r.checkWebhook(ctx)
	}
	if err != nil || !p.Injection.Works() {
		return err
	}
	if p.driverMissing {
		p.Injection = status.DriverMissing
		return nil
	}
	removed, err := r.imageVolumesRemoved(ctx, p.Cluster)
	if removed {
		p.Injection = status.ImageVolumesRemoved
	}
	return err
}

// checkWebhook finds out whether the API server calls the operator's webhook.
func (r *Reconciler) checkWebhook(ctx context.Context) (status.Injection, error) {
	if r.WebhookDisabled {
		return status.WebhookDisabled, nil
	}
	// Search by the webhook's own name: OLM generates the name of the configuration.
	var all admissionv1.MutatingWebhookConfigurationList
	if err := r.Client.List(ctx, &all); err != nil {
		return status.WebhookMissing, fmt.Errorf("looking for the MutatingWebhookConfiguration of %s: %w", certs.WebhookName, err)
	}
	state := status.WebhookMissing
	for _, configuration := range all.Items {
		for _, webhook := range configuration.Webhooks {
			switch {
			case webhook.Name != certs.WebhookName:
			case len(webhook.ClientConfig.CABundle) == 0:
				return status.WebhookUntrusted, nil
			default:
				state = status.WebhookWorks
			}
		}
	}
	return state, nil
}
