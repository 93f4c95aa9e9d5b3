// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// firstRelease are fields whose defaults the operator relies on: every definition that it may meet has them. No field of a later
// release is added here. Let the operator do without it what it does with its default.
var firstRelease = []string{
	"memory.pool", "discovery.port", "imagePullPolicy", "injection.client.imagePullPolicy", "monitoring.port", "resources.cpu",
	"resources.memoryOverhead", "timing.heartbeatMilliseconds", "timing.leaseMilliseconds", "timing.memberTTLMilliseconds",
	"timing.peerTimeoutMilliseconds", "update.strategy",
}

// TestOlderDefinition: where the definition of PeerCacheCluster is of an earlier release, clusters lack the fields that are newer,
// and their defaults. The operator then does what it does with the defaults.
func TestOlderDefinition(t *testing.T) {
	cluster, err := parseCluster([]byte("kind: PeerCacheCluster\nmetadata: {name: kv, namespace: inference}\nspec: {memory: {pool: 64Gi}}"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
	if err != nil {
		t.Fatal(err)
	}
	want := effects(t, cluster)
	spec, _, _ := unstructured.NestedMap(content, "spec")
	removed := 0
	for _, path := range pathsIn(spec, nil) {
		name := strings.Join(path, ".")
		if slices.ContainsFunc(firstRelease, func(field string) bool { return field == name || strings.HasPrefix(field, name+".") }) {
			continue
		}
		removed++
		older := runtime.DeepCopyJSON(content)
		unstructured.RemoveNestedField(older, append([]string{"spec"}, path...)...)
		lacking := &v1alpha1.PeerCacheCluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(older, lacking); err != nil {
			t.Fatal(err)
		}
		if got := effects(t, lacking); got != want {
			t.Errorf("without spec.%s the operator does something else than with its default:\n%s", name, firstDifference(want, got))
		}
	}
	if removed < 8 {
		t.Errorf("only %d fields have defaults", removed)
	}
}

// effects is what the operator makes of a cluster, and of a pod of both engines.
func effects(t *testing.T, cluster *v1alpha1.PeerCacheCluster) string {
	t.Helper()
	desired, err := plan.For(cluster, plan.Facts{DataplaneImage: "dataplane"})
	if err != nil {
		return err.Error()
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "engine", Namespace: cluster.Namespace},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "e", Image: "i", Command: []string{"python3", "-m", "sglang.launch_server"}},
			{Name: "v", Image: "i", Command: []string{"vllm", "serve", "m"}}}},
	}
	result := inject.Inject(pod, inject.FactsFor(cluster, cluster.Namespace, inject.Options{ClientImage: "client"}))
	text, err := yaml.Marshal([]any{desired.DaemonSets, desired.Extras, desired.Image, result})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pathsIn are the paths of all fields, those with fields in them too.
func pathsIn(fields map[string]any, above []string) (paths [][]string) {
	for name, value := range fields {
		path := append(append([]string{}, above...), name)
		paths = append(paths, path)
		if inner, ok := value.(map[string]any); ok {
			paths = append(paths, pathsIn(inner, path)...)
		}
	}
	return paths
}

func firstDifference(want, got string) string {
	lines := strings.Split(got, "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(lines) || lines[i] != line {
			return "with: " + line + "\nwithout: " + strings.Join(lines[i:min(i+1, len(lines))], "")
		}
	}
	return "there is more at the end"
}
