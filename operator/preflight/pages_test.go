// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"os"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestFirstManifestsReachGPUMachines: whoever copies the first PeerCacheCluster of a page gets members where SGLang runs, on
// machines that a taint keeps free for GPU pods, and none elsewhere.
func TestFirstManifestsReachGPUMachines(t *testing.T) {
	gpu, cpu := machine("gpu"), machine("cpu")
	gpu.Labels["nvidia.com/gpu.present"] = "true"
	gpu.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}}
	specs := regexp.MustCompile(`(?s)kind: PeerCacheCluster\n.*?( *spec:\n.*?\n)( *EOF\n|` + "```)")
	for _, page := range []string{
		"README.md", "docs/quickstart.md", "docs/install/tcp.md", "charts/peercache/templates/NOTES.txt",
	} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := specs.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no PeerCacheCluster", page)
		}
		var c v1alpha1.PeerCacheCluster
		if err := yaml.Unmarshal(found[1], &c); err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		daemonSet := &appsv1.DaemonSet{}
		daemonSet.Spec.Template.Spec.NodeSelector, daemonSet.Spec.Template.Spec.Tolerations = c.Spec.Nodes.Selector, c.Spec.Nodes.Tolerations
		if runsOn := machineFilter(daemonSet); !runsOn(&gpu) || runsOn(&cpu) {
			t.Errorf("%s: members on the GPU machine: %t, on the other: %t", page, runsOn(&gpu), runsOn(&cpu))
		}
	}
}
