// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
)

func withTemplate(t *testing.T, text string) func(*v1alpha1.PeerCacheClusterSpec) {
	t.Helper()
	template := &v1alpha1.PodTemplate{}
	if err := yaml.UnmarshalStrict([]byte(text), template); err != nil {
		t.Fatal(err)
	}
	return func(s *v1alpha1.PeerCacheClusterSpec) { s.PodTemplate = template }
}

func TestPodTemplateIsMerged(t *testing.T) {
	plain := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template
	template := mustPlan(t, testCluster(withTemplate(t, `
metadata:
  labels: {team: inference}
  annotations: {example.com/note: hello}
spec:
  priorityClassName: high
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: zone, operator: NotIn, values: [c]}]}]}}}
  tolerations: [{key: gpu}]
  containers:
    - name: peercached
      env: [{name: TZ, value: UTC}]
      resources: {limits: {cpu: 3}}
    - {name: sidecar, image: "tool:1"}
`))).DaemonSets[0].Spec.Template
	if template.Labels["team"] != "inference" || template.Labels[v1alpha1.LabelCluster] != "demo" ||
		template.Annotations["example.com/note"] != "hello" || template.Annotations[v1alpha1.AnnotationConfigHash] == "" {
		t.Errorf("metadata is %+v", template.ObjectMeta)
	}
	pod, container := template.Spec, template.Spec.Containers[0]
	if pod.PriorityClassName != "high" || len(pod.Tolerations) != 1 || len(pod.Containers) != 2 ||
		pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].
			MatchExpressions[0].Operator != corev1.NodeSelectorOpNotIn {
		t.Errorf("the pod is %+v", pod)
	}
	if container.Name != ContainerName || container.Image != plain.Spec.Containers[0].Image ||
		len(container.Env) != len(plain.Spec.Containers[0].Env)+1 || container.Resources.Limits.Cpu().String() != "3" ||
		container.Resources.Requests.Cpu().String() != "1" || len(pod.Volumes) != len(plain.Spec.Volumes) {
		t.Errorf("the container is %+v", container)
	}
	node := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "NODE_NAME" })
	id := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "PEERCACHE_NODE_ID" })
	if node > id {
		t.Error("merging moved NODE_NAME behind the variable that refers to it")
	}
}

func TestPodTemplateProblems(t *testing.T) {
	tests := []struct{ name, template, says string }{
		{"the operator's label", "metadata: {labels: {peercache.io/group: x}}",
			"podTemplate.metadata.labels sets peercache.io/group, which the operator sets itself"},
		{"the operator's annotation", "metadata: {annotations: {peercache.io/config-hash: x}}", "remove it"},
		{"an unknown field", "spec: {prioritiClassName: x}", `unknown field "prioritiClassName"`},
		{"an unknown field of a container", "spec: {containers: [{name: peercached, imagee: x}]}",
			`unknown field "containers[0].imagee"`},
		{"another type", "spec: {priorityClassName: 5}", "does not give a pod's spec"},
		{"no merge key", "spec: {containers: [{image: x}]}", "cannot be merged"},
		{"without the container", "spec: {containers: [{name: peercached, $patch: delete}]}", "removes the container peercached"},
		{"options on the command line", "spec: {containers: [{name: peercached, args: [--insecure-peers=on]}]}",
			"sets args of container peercached, which only the operator sets: remove it, and write options in spec.extraConfig"},
		{"another program", "spec: {containers: [{name: peercached, command: [sh]}]}", "sets command of container peercached"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := For(testCluster(withTemplate(t, test.template)), testFacts)
			if err == nil || !strings.HasPrefix(err.Error(), "PodTemplateInvalid: ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
}

func TestAnEmptyPodTemplateChangesNothing(t *testing.T) {
	plain := mustPlan(t, testCluster()).DaemonSets[0]
	for _, template := range []*v1alpha1.PodTemplate{{}, {Spec: &runtime.RawExtension{}}} {
		with := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.PodTemplate = template })).DaemonSets[0]
		if !equality.Semantic.DeepEqual(with, plain) {
			t.Errorf("%+v changes the DaemonSet", template)
		}
	}
}

// TestSidecarHasTheEnvironmentOfPodTemplate checks that a sidecar gets only the environment of podTemplate: the pod is the
// user's.
func TestSidecarHasTheEnvironmentOfPodTemplate(t *testing.T) {
	edit := withTemplate(t, `
metadata: {labels: {team: inference}}
spec:
  priorityClassName: high
  volumes: [{name: scratch, emptyDir: {}}]
  containers:
    - name: peercached
      env: [{name: TZ, value: UTC}, {name: LANG, value: C}]
      resources: {limits: {cpu: 3}}
      volumeMounts: [{name: scratch, mountPath: /scratch}]
    - {name: other, image: "tool:1"}
`)
	plain, got := mustNodeInPod(t, testCluster(), "default", "inference").Sidecar, mustNodeInPod(t, testCluster(edit), "default", "inference").Sidecar
	value := func(c corev1.Container, name string) string {
		i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		if i < 0 {
			return ""
		}
		return c.Env[i].Value
	}
	if value(got, "TZ") != "UTC" || value(got, "LANG") != "C" || len(got.Env) != len(plain.Env)+2 {
		t.Errorf("the environment is %+v", got.Env)
	}
	// A value can refer only to variables before it. Otherwise Kubernetes takes the reference literally.
	before := func(first, second string) bool {
		index := func(name string) int {
			return slices.IndexFunc(got.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		}
		return index(first) >= 0 && index(first) < index(second)
	}
	if !before("POD_IP", "PEERCACHE_ADVERTISE_ADDR") || !before("POD_NAME", "PEERCACHE_NODE_ID") {
		t.Errorf("the environment is in the wrong order: %+v", got.Env)
	}
	got.Env = plain.Env
	if !equality.Semantic.DeepEqual(got, plain) {
		t.Errorf("more than the environment was merged: %+v", got)
	}
	broken := withTemplate(t, `spec: {containers: [{name: peercached, env: nonsense}]}`)
	if _, problem := NodeInPod(testCluster(broken), "default", "inference", testFacts); problem == nil || problem.Reason != "PodTemplateInvalid" {
		t.Errorf("a template that cannot be merged gives %+v", problem)
	}
}
