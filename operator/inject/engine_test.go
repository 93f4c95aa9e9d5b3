package inject

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEngineOf(t *testing.T) {
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(noon)}
	}
	scheduled := condition(corev1.PodScheduled, corev1.ConditionTrue)
	for name, test := range map[string]struct {
		conditions []corev1.PodCondition
		state      EngineState
	}{
		"just there": {[]corev1.PodCondition{scheduled}, EngineStarting},
		"no volume":  {[]corev1.PodCondition{scheduled, condition(corev1.PodReadyToStartContainers, corev1.ConditionFalse)}, EngineBlocked},
		"starting": {[]corev1.PodCondition{condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue), scheduled,
			condition(corev1.PodReady, corev1.ConditionFalse)}, EngineStarting},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: test.conditions}}
		if got := EngineOf(pod, 1); got.State != test.state || !got.Since.Equal(noon) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
