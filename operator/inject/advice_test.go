// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/operator/inject/injecttest"
	"github.com/peercache/peercache/operator/inject/names"
)

func TestAdvice(t *testing.T) {
	pod := injecttest.ReadPod(t, "testdata/args-plain.out.yaml")
	limited, sized := pod.DeepCopy(), pod.DeepCopy()
	limited.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("110Gi")}
	sized.Spec.Containers[0].Args = append(sized.Spec.Containers[0].Args, "--hicache-size", "100")
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		says string
	}{
		"by itself":       {pod, "take up to 80 % of the free memory of its machine but 10Gi"},
		"within a limit":  {limited, "take up to 80Gi of its limit of 110Gi"},
		"with a size":     {sized, ""},
		"in a script":     {injecttest.ReadPod(t, "testdata/bash-c.out.yaml"), ""},
		"not of SGLang's": {injecttest.ReadPod(t, "testdata/not-sglang.out.yaml"), ""},
	} {
		got := Advice(Inject(test.pod, testFacts()).Pod)
		if len(got) > 1 || (len(got) == 0) != (test.says == "") || !strings.Contains(strings.Join(got, ""), test.says) {
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
}

func TestNoted(t *testing.T) {
	pod := &corev1.Pod{}
	if got := Noted(pod); got != nil {
		t.Errorf("%q", got)
	}
	pod.Annotations = map[string]string{names.AnnotationNote: "b", names.AnnotationSkipReason: "a"}
	if got := strings.Join(Noted(pod), ","); got != "a,b" {
		t.Errorf("%q", got)
	}
}
