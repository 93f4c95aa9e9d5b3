// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestBypass(t *testing.T) {
	var machines []corev1.Node
	var pods []corev1.Pod
	for i := range 8 {
		machine, pod := corev1.Node{}, corev1.Pod{}
		machine.Name = fmt.Sprintf("gpu-%d", i)
		pod.Spec.NodeName = machine.Name
		if i > 0 {
			machine.Labels = map[string]string{v1alpha1.LabelBypass: v1alpha1.BypassOn}
		}
		machines, pods = append(machines, machine), append(pods, pod, pod)
	}
	spec := v1alpha1.PeerCacheClusterSpec{}
	none := BypassOf(spec, machines[:1])
	if none.On(&pods[0]) || none.Message(pods) != "" {
		t.Errorf("none: %q", none.Message(pods))
	}
	some := BypassOf(spec, machines)
	if some.On(&pods[0]) || !some.On(&pods[2]) {
		t.Error("a machine by its label")
	}
	if got := some.Message(pods[:4]); !strings.Contains(got, "without the cache on gpu-1, by label peercache.io/bypass") {
		t.Error(got)
	}
	if got := some.Message(pods); !strings.Contains(got, "gpu-1, gpu-2, gpu-3, gpu-4, gpu-5 and 2 more") {
		t.Error(got)
	}
	spec.Injection.Bypass = v1alpha1.SwitchEnabled
	all := BypassOf(spec, machines)
	if !all.On(&pods[0]) || !strings.Contains(all.Message(pods), "spec.injection.bypass is Enabled") {
		t.Error(all.Message(pods))
	}
	// An unscheduled pod is of no machine.
	if some.On(&corev1.Pod{}) {
		t.Error("a pod without a machine")
	}
}
