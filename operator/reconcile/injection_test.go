// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInjectionReady(t *testing.T) {
	for state, want := range map[webhookState]struct {
		status       metav1.ConditionStatus
		reason, says string
	}{
		webhookWorks:     {metav1.ConditionTrue, "WebhookReady", "peercache.io/inject"},
		webhookDisabled:  {metav1.ConditionFalse, "WebhookDisabled", "webhook.enabled of the Helm chart"},
		webhookMissing:   {metav1.ConditionFalse, "WebhookMissing", "peercache-inject does not exist"},
		webhookUntrusted: {metav1.ConditionFalse, "WebhookUntrusted", "has no CA"},
	} {
		got := injectionReady(state, missed{})
		if got.Status != want.status || got.Reason != want.reason || !strings.Contains(got.Message, want.says) {
			t.Errorf("state %d gives %+v, want %+v", state, got, want)
		}
	}
}
