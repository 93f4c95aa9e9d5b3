// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package kubectl

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject/webhooktest"
)

// TestRecipesOfKubernetes applies recipes whose pods Kubernetes' own controllers make.
func TestRecipesOfKubernetes(t *testing.T) {
	webhooktest.Serve(t, clientImage)
	testenv.Controllers(t)
	namespace := newRecipeNamespace(t, func(*v1alpha1.PeerCacheClusterSpec) {})

	t.Run("StatefulSet", func(t *testing.T) {
		applySample(t, namespace, "stateful-set.yaml", func(*unstructured.Unstructured) {})
		for i, pod := range podsThatCome(t, namespace, "qwen", 2) {
			if pod.Name != fmt.Sprintf("qwen-%d", i) || pod.Annotations["peercache.io/injected-containers"] != "sglang=environment" ||
				pod.Annotations["peercache.io/inject-note"] != "" {
				t.Errorf("pod %s: annotations %v", pod.Name, pod.Annotations)
			}
			container := pod.Spec.Containers[0]
			if !strings.Contains(container.Args[0], " $PEERCACHE_SGLANG_ARGS ") || !hasVariable(container, "PEERCACHE_SGLANG_ARGS") {
				t.Errorf("pod %s: args %q, variables %+v", pod.Name, container.Args, container.Env)
			}
			if rank := container.Env[1]; rank.Name != "RANK" || rank.ValueFrom.FieldRef.FieldPath != "metadata.labels['apps.kubernetes.io/pod-index']" ||
				pod.Labels["apps.kubernetes.io/pod-index"] != strconv.Itoa(i) {
				t.Errorf("pod %s: rank %+v, labels %v", pod.Name, rank, pod.Labels)
			}
		}
	})

	t.Run("Deployment that Kueue holds", func(t *testing.T) {
		const gate = "kueue.x-k8s.io/admission"
		applySample(t, namespace, "kueue.yaml", func(object *unstructured.Unstructured) {
			gates := []any{map[string]any{"name": gate}} // Kueue's webhook adds it to each pod
			if err := unstructured.SetNestedSlice(object.Object, gates, "spec", "template", "spec", "schedulingGates"); err != nil {
				t.Fatal(err)
			}
		})
		for _, pod := range podsThatCome(t, namespace, "llama", 2) {
			if pod.Annotations["peercache.io/injected-containers"] != "sglang=flags" || len(pod.Spec.SchedulingGates) != 1 {
				t.Errorf("pod %s: annotations %v, gates %v", pod.Name, pod.Annotations, pod.Spec.SchedulingGates)
			}
			admit(t, &pod)
			debug(t, &pod)
		}
	})
}

// admit lets a pod go as Kueue does: on the machines of its flavor.
func admit(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	before := pod.DeepCopy()
	pod.Spec.SchedulingGates = nil
	pod.Spec.NodeSelector = map[string]string{"flavor": "h100"}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "flavor", Operator: corev1.TolerationOpExists})
	want := pod.DeepCopy()
	if err := testenv.Client(t).Patch(t.Context(), pod, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if asYAML(t, &corev1.Pod{Spec: pod.Spec}) != asYAML(t, &corev1.Pod{Spec: want.Spec}) {
		t.Errorf("the admitted pod %s is %+v, want %+v", pod.Name, pod.Spec, want.Spec)
	}
}

// debug adds an ephemeral container, as kubectl debug does.
func debug(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	annotations := pod.Annotations
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			Command: []string{"python3", "-m", "sglang.launch_server", "--help"},
		},
	}}
	if err := testenv.Client(t).SubResource("ephemeralcontainers").Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	ephemeral := pod.Spec.EphemeralContainers[0]
	if len(ephemeral.Env)+len(ephemeral.VolumeMounts)+len(ephemeral.Args) != 0 || fmt.Sprint(pod.Annotations) != fmt.Sprint(annotations) {
		t.Errorf("pod %s: %+v, annotations %v", pod.Name, ephemeral, pod.Annotations)
	}
}

func applySample(t *testing.T, namespace, file string, change func(*unstructured.Unstructured)) {
	t.Helper()
	text, err := os.ReadFile(testenv.File(t, "docs/samples/"+file))
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(namespace)
		if object.GetKind() != "Service" {
			change(object)
		}
		if err := testenv.Client(t).Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// podsThatCome waits for the pods of an app, and returns them in the order of their names.
func podsThatCome(t *testing.T, namespace, app string, count int) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	testenv.Eventually(t, func() error {
		err := testenv.Client(t).List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels{"app": app})
		if err == nil && len(pods.Items) != count {
			err = fmt.Errorf("%d pods of %s, want %d", len(pods.Items), app, count)
		}
		return err
	})
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods.Items
}
