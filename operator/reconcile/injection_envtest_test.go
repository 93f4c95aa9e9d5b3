// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/certs"
)

func TestInjectionReadyFollowsTheWebhook(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "WebhookMissing", "")

	named := func(name string) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{
			Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			FailurePolicy: new(admissionv1.Ignore),
			ClientConfig:  admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/mutate-v1-pod")},
		}
	}
	webhook := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "inject.peercache.io-7hx2p"}, // a name that OLM gives
		Webhooks:   []admissionv1.MutatingWebhook{named(certs.WebhookName), named("else.example.com")},
	}
	b.must(b.Create(t.Context(), webhook))
	t.Cleanup(func() {
		if err := b.Delete(context.WithoutCancel(t.Context()), webhook); err != nil {
			t.Error(err)
		}
	})
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "WebhookUntrusted", "")

	webhook.Webhooks[0].ClientConfig.CABundle = []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	b.must(b.Update(t.Context(), webhook))
	b.pass()
	b.condition("InjectionReady", metav1.ConditionTrue, "WebhookReady", "")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Client.Delivery = v1alpha1.ClientImageVolume })
	b.pass()
	if testenv.Minor(t) < 35 {
		b.condition("InjectionReady", metav1.ConditionFalse, "ImageVolumesRemoved", "or write delivery: InitContainer")
	} else {
		b.condition("InjectionReady", metav1.ConditionTrue, "WebhookReady", "")
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("what the API server does with image volumes is asked again: %q", again)
	}

	b.reconciler.WebhookDisabled = true
	b.pass()
	b.condition("InjectionReady", metav1.ConditionFalse, "WebhookDisabled", "")
}
