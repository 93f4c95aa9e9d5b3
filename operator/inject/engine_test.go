package inject

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/operator/inject/names"
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

func TestRanks(t *testing.T) {
	engine := func(name string, words ...string) corev1.Container {
		return corev1.Container{Name: name, Command: words}
	}
	for given, want := range map[string]int{
		"a=flags":         8,
		"b=flags":         2,
		"a=flags,b=flags": 10,
		"b=environment":   1,
		"c=flags":         1,
		"":                1,
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
			engine("a", "python3", "-m", "sglang.launch_server", "--tp", "8"),
			engine("b", "vllm", "serve", "m", "--tensor-parallel-size", "4", "--data-parallel-size", "2"),
			engine("c", "nginx"),
		}}}
		pod.Annotations = map[string]string{names.AnnotationContainers: given}
		if got := Ranks(pod); got != want {
			t.Errorf("%q: %d ranks, want %d", given, got, want)
		}
	}
}
