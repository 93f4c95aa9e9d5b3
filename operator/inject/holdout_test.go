// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/names"
)

func TestDrawHoldout(t *testing.T) {
	for _, c := range []struct {
		share string
		drawn int
		group string
	}{
		{"", 0, ""}, {"0%", 0, ""}, {"x%", 0, ""}, // the API server admits neither of the two
		{"1%", 0, "true"}, {"1%", 1, "false"}, {"10%", 9, "true"}, {"10%", 10, "false"}, {"50%", 99, "false"},
	} {
		if got := drawHoldout(c.share, c.drawn); got != c.group {
			t.Errorf("%s, drawn %d: %q, want %q", c.share, c.drawn, got, c.group)
		}
	}
}

func TestHoldoutOfPods(t *testing.T) {
	for name, c := range map[string]struct {
		annotation string
		labels     map[string]string
		args       []string
		drawn      string
		group      string
	}{
		"drawn":                              {drawn: "true", group: "true"},
		"not drawn":                          {drawn: "false", group: "false"},
		"the cluster holds none out":         {},
		"its user holds it out":              {annotation: "true", group: "true"},
		"its user keeps it in":               {annotation: "false", drawn: "true", group: "false"},
		"another word":                       {annotation: "yes", drawn: "false", group: "false"},
		"of a LeaderWorkerSet":               {labels: map[string]string{labelLeaderWorkerSet: "x"}, drawn: "true"},
		"of a LeaderWorkerSet, by its user":  {labels: map[string]string{labelLeaderWorkerSet: "x"}, annotation: "true", group: "true"},
		"with ranks elsewhere":               {args: []string{"--nnodes", "2"}, drawn: "true"},
		"with ranks elsewhere, in a script":  {args: []string{"exec serve --nnodes=$N"}, drawn: "true"},
		"with ranks elsewhere, vLLM's short": {args: []string{"-n", "2"}, drawn: "false"},
	} {
		pod := &corev1.Pod{}
		pod.Labels = c.labels
		if c.annotation != "" {
			pod.Annotations = map[string]string{names.AnnotationHoldout: c.annotation}
		}
		pod.Spec.Containers = []corev1.Container{{Name: "router"}, {Name: "main", Args: append([]string{"vllm", "serve", "m"}, c.args...)}}
		if got := holdoutOf(pod, Facts{Holdout: c.drawn}); got != c.group {
			t.Errorf("%s: group %q, want %q", name, got, c.group)
		}
	}
}

// TestTheWebhookHoldsPodsOut checks the share of many pods, and that a second call for the same pod does not draw again.
func TestTheWebhookHoldsPodsOut(t *testing.T) {
	cluster := testCluster("serving", func(c *v1alpha1.PeerCacheCluster) { c.Spec.Injection.Holdout = "20%" })
	reader := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(cluster).Build()
	h := &handler{options: Options{ClientImage: "client:test"}, cached: reader, live: reader}
	const pods = 500
	groups := map[string]int{}
	for range pods {
		raw := []byte(enginePod)
		first := admitted(t, h, &raw)
		held := lastEnv(first.Spec.Containers[0].Env, names.EnvHoldout) >= 0
		group := first.Annotations[names.AnnotationHoldout]
		if held != (group == names.HoldoutTrue) || first.Annotations[names.AnnotationInjected] != "kv" {
			t.Fatalf("group %q, held out %t, annotations %v", group, held, first.Annotations)
		}
		if again := admitted(t, h, &raw); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Fatalf("a second call makes %v of %v", again, first)
		}
		groups[group]++
	}
	// Five standard deviations around a fifth.
	if held := groups[names.HoldoutTrue]; held < pods/5-45 || held > pods/5+45 || groups[names.HoldoutFalse] != pods-held {
		t.Errorf("groups %v of %d pods, of which a fifth should be held out", groups, pods)
	}
}

// admitted is the pod that the API server keeps. Its JSON replaces raw.
func admitted(t *testing.T, h *handler, raw *[]byte) *corev1.Pod {
	t.Helper()
	response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Namespace: "serving", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: *raw},
	}})
	*raw = applied(t, *raw, response)
	pod := &corev1.Pod{}
	if err := json.Unmarshal(*raw, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}
