// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// guidesThatProve have all that a request needs, and a request whose answer shows that tokens came from the cache.
var guidesThatProve = []string{"docs/quickstart.md", "docs/install/tcp.md"}

// TestGuidesRunEngines checks that SGLang of the guides can start as written: its model is on a volume that the pod mounts, and it
// reports cached tokens. The other guides refer to one that has the rest.
func TestGuidesRunEngines(t *testing.T) {
	engines := 0
	for _, page := range read(t, "docs/quickstart.md", "docs/install") {
		for _, block := range page.Blocks {
			for document := range strings.SplitSeq(block.Text, "\n---\n") {
				deployment := appsv1.Deployment{}
				if block.Language != "yaml" || yaml.Unmarshal([]byte(document), &deployment) != nil || deployment.Kind != "Deployment" {
					continue
				}
				for _, container := range deployment.Spec.Template.Spec.Containers {
					if slices.Contains(container.Command, "sglang.launch_server") {
						engines++
						for _, fault := range engineFaults(deployment.Spec.Template.Spec, container) {
							t.Errorf("%s:%d: %s: %s", strings.TrimPrefix(page.File, root+"/"), block.Line, deployment.Name, fault)
						}
					}
				}
			}
		}
	}
	if engines < 3 {
		t.Errorf("only %d engines were found", engines)
	}
	for _, file := range guidesThatProve {
		text, err := os.ReadFile(root + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "jq -e '.usage.prompt_tokens_details.cached_tokens > 0'") {
			t.Errorf("%s has no request that proves a hit", file)
		}
		if strings.Contains(string(text), "--disaggregation-mode") && !strings.Contains(string(text), "sglang_router.launch_router") {
			t.Errorf("%s has no router between prefill and decode", file)
		}
	}
}

func engineFaults(pod corev1.PodSpec, container corev1.Container) (faults []string) {
	at := slices.Index(container.Args, "--model-path")
	if at < 0 || at+1 == len(container.Args) {
		return []string{"it names no model"}
	}
	folder := "/root/.cache/huggingface" // where SGLang puts a model that it downloads
	if model := container.Args[at+1]; strings.HasPrefix(model, "/") {
		folder = model
	}
	for _, want := range []string{folder, "/dev/shm"} {
		mounted := slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
			return strings.HasPrefix(want+"/", mount.MountPath+"/") &&
				slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool { return volume.Name == mount.Name })
		})
		if !mounted {
			faults = append(faults, "no volume is mounted at "+want)
		}
	}
	if !slices.Contains(container.Args, "--enable-cache-report") {
		faults = append(faults, "it reports no cached tokens")
	}
	return faults
}
