// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package kubectl

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject/injecttest"
	"github.com/peercache/peercache/operator/inject/webhooktest"
)

const clientImage = "ghcr.io/peercache/peercache/client:test"

// recipes are the manifests of docs/samples whose pods are made by controllers of other projects. made turns the pods of the
// manifest into what these controllers create: the labels, variables, containers and gates are theirs. hack/lab/recipes runs the
// controller of LeaderWorkerSets itself.
var recipes = map[string]struct {
	made func(t *testing.T, text []byte) []*corev1.Pod
	// connected is the annotation of each pod, in the order of the manifest; "" for a pod that asks for nothing.
	connected []string
}{
	"role-based-group.yaml":             {madeByRBG, []string{"", "sglang=flags", "sglang=flags", "sglang=flags"}},
	"kserve-inference-service.yaml":     {madeByKServe, []string{"kserve-container=flags", "kserve-container=flags"}},
	"kserve-llm-inference-service.yaml": {madeByLLMInferenceService, []string{"main=flags", "main=flags"}},
	"llm-d-values.yaml":                 {madeByLLMD, []string{"sglang=flags", "sglang=flags"}},
	"kueue.yaml":                        {gatedByKueue, []string{"sglang=flags"}},
}

// recipeModes are the clusters that the pods are connected to, and a variable that a connected container has then.
var recipeModes = map[string]struct {
	change   func(*v1alpha1.PeerCacheClusterSpec)
	variable string
}{
	"node":             {func(*v1alpha1.PeerCacheClusterSpec) {}, "PEERCACHE_SOCKET"},
	"node, two groups": {injecttest.NUMARails, "PEERCACHE_NUMA_SOCKETS"},
	"sidecar":          {func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionSidecar }, "PEERCACHE_SOCKET"},
}

// TestRecipes creates the pods of the recipes through the real webhook. It takes nothing away from them.
func TestRecipes(t *testing.T) {
	webhooktest.Serve(t, clientImage)
	for mode, cluster := range recipeModes {
		namespace := newRecipeNamespace(t, cluster.change)
		for file, recipe := range recipes {
			t.Run(mode+": "+file, func(t *testing.T) {
				text, err := os.ReadFile(testenv.File(t, "docs/samples/"+file))
				if err != nil {
					t.Fatal(err)
				}
				pods := recipe.made(t, text)
				if len(pods) != len(recipe.connected) {
					t.Fatalf("%d pods, want %d", len(pods), len(recipe.connected))
				}
				for i, pod := range pods {
					pod.Namespace = namespace
					expectConnected(t, pod, recipe.connected[i], cluster.variable)
				}
			})
		}
	}
}

func newRecipeNamespace(t *testing.T, change func(*v1alpha1.PeerCacheClusterSpec)) string {
	t.Helper()
	kv := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace(t), Name: "kv"}}
	kv.Spec.Memory.Pool = resource.MustParse("1Gi")
	change(&kv.Spec)
	if err := testenv.Client(t).Create(t.Context(), kv); err != nil {
		t.Fatal(err)
	}
	return kv.Namespace
}

// expectConnected creates a pod with the label and without. Whatever is there without is there with it, in the same order.
func expectConnected(t *testing.T, pod *corev1.Pod, connected, variable string) {
	t.Helper()
	c := testenv.Client(t)
	plain := pod.DeepCopy()
	delete(plain.Labels, v1alpha1.LabelInject)
	for _, one := range []*corev1.Pod{plain, pod} {
		if err := c.Create(t.Context(), one, client.DryRunAll); err != nil {
			t.Fatalf("pod %s: %v", pod.Name, err)
		}
		one.UID, one.CreationTimestamp, one.ManagedFields, one.Status = "", metav1.Time{}, nil, corev1.PodStatus{}
	}
	if got := pod.Annotations["peercache.io/injected-containers"]; got != connected {
		t.Errorf("pod %s: connected %q, want %q; reason %q", pod.Name, got, connected, pod.Annotations["peercache.io/skip-reason"])
	}
	before, after := asYAML(t, plain), asYAML(t, pod)
	if connected == "" && before != after {
		t.Errorf("pod %s asks for nothing and was changed:\n%s", pod.Name, after)
	}
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(before), B: difflib.SplitLines(after)})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
			t.Errorf("pod %s lost %s", pod.Name, line)
		}
	}
	if connected == "" {
		return
	}
	name, _, _ := strings.Cut(connected, "=")
	for _, container := range pod.Spec.Containers {
		if container.Name != name {
			continue
		}
		if flags := strings.Join(container.Args, " "); !strings.Contains(flags, "--hicache-storage-backend dynamic") {
			t.Errorf("pod %s: args %s", pod.Name, flags)
		}
		if !hasVariable(container, variable) {
			t.Errorf("pod %s: no variable %s in %+v", pod.Name, variable, container.Env)
		}
	}
}

func hasVariable(container corev1.Container, name string) bool {
	for _, variable := range container.Env {
		if variable.Name == name {
			return true
		}
	}
	return false
}

// itemMark begins an item of a list. It moves when a field is added to the item.
var itemMark = regexp.MustCompile(`(?m)^( *)- `)

func asYAML(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return itemMark.ReplaceAllString(string(text), "$1  ")
}
