// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/operator/inject/names"
)

func TestHostMemory(t *testing.T) {
	for _, test := range []struct{ annotation, ofCluster, want, reason string }{
		{"", "", "4Gi", ""}, // the definition may lack the field
		{"", "8Gi", "8Gi", ""},
		{"512Mi", "8Gi", "512Mi", ""},
		{"1.5Gi", "8Gi", "1536Mi", ""},
		{"256Mi", "", "256Mi", ""},
		{"255Mi", "", "", `"255Mi"`},
		{"65Ti", "", "", "64Ti"},
		{"500000000.5", "", "", "whole bytes"},
		{"much", "", "", `"much"`},
		{"-1Gi", "", "", names.AnnotationVLLMHostMemory},
	} {
		pod, facts := &corev1.Pod{}, Facts{}
		if test.annotation != "" {
			pod.Annotations = map[string]string{names.AnnotationVLLMHostMemory: test.annotation}
		}
		if test.ofCluster != "" {
			facts.HostMemory = resource.MustParse(test.ofCluster)
		}
		got, reason := hostMemory(pod, facts)
		if (reason == "") != (test.reason == "") || !strings.Contains(reason, test.reason) || test.want != "" && got.Cmp(resource.MustParse(test.want)) != 0 {
			t.Errorf("annotation %q, cluster %q: %s %q", test.annotation, test.ofCluster, got.String(), reason)
		}
	}
}
