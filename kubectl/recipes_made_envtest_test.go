// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package kubectl

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// podsOfRecipe are the pods as the manifest has them.
func podsOfRecipe(t *testing.T, text []byte) []*corev1.Pod {
	t.Helper()
	found, err := podsOf(text)
	if err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for _, one := range found {
		words := strings.FieldsFunc(one.name, func(r rune) bool { return r == '/' || r == ' ' })
		one.pod.GenerateName, one.pod.Name = "", words[len(words)-1]
		pods = append(pods, one.pod)
	}
	return pods
}

// stamp adds labels and an owner to a pod.
func stamp(pod *corev1.Pod, apiVersion, kind, owner string, labels map[string]string) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, labels)
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: apiVersion, Kind: kind, Name: owner, UID: "00000000-0000-0000-0000-000000000001", Controller: new(true), BlockOwnerDeletion: new(true)},
	}
}

func fromLabel(name, label string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + label + "']"},
	}}
}

// madeByRBG makes the pods of a RoleBasedGroup, a leader and a worker of the role that has both. Roles of RBG have their variables
// before the user's, the group's configuration as a volume, a readiness gate and, with an engine runtime, one more container.
func madeByRBG(t *testing.T, text []byte) []*corev1.Pod {
	const prefix = "rbg.workloads.x-k8s.io/"
	var pods []*corev1.Pod
	for _, pod := range podsOfRecipe(t, text) {
		indices := []string{"0"}
		multi := strings.Contains(strings.Join(pod.Spec.Containers[0].Command, " "), "RBG_LWP_WORKER_INDEX")
		if multi {
			indices = []string{"0", "1"}
		}
		for _, index := range indices {
			one := pod.DeepCopy()
			one.Name = "qwen-" + pod.Name + "-" + index
			component := map[string]string{"0": "leader", "1": "worker"}[index]
			stamp(one, "workloads.x-k8s.io/v1alpha2", "RoleInstance", "qwen-"+pod.Name, map[string]string{
				prefix + "group-name": "qwen", prefix + "role-name": pod.Name, prefix + "role-instance-name": "qwen-" + pod.Name,
				prefix + "role-instance-index": "0", prefix + "component-name": component, prefix + "component-id": "0",
				prefix + "component-index": index, prefix + "component-size": "2",
				"pod-group.scheduling.sigs.k8s.io/name": "qwen",
			})
			variables := []corev1.EnvVar{
				{Name: "RBG_GROUP_NAME", Value: "qwen"}, {Name: "RBG_ROLE_NAME", Value: pod.Name},
				fromLabel("RBG_ROLE_INDEX", prefix+"role-instance-index"), fromLabel("RBG_ROLE_INSTANCE_NAME", prefix+"role-instance-name"),
			}
			if multi {
				variables = append(variables,
					corev1.EnvVar{Name: "RBG_LWP_LEADER_ADDRESS", Value: "$(RBG_ROLE_INSTANCE_NAME)-0.s-qwen-decode.serving"},
					fromLabel("RBG_LWP_WORKER_INDEX", prefix+"component-index"), fromLabel("RBG_LWP_GROUP_SIZE", prefix+"component-size"))
			}
			one.Spec.Containers = append(one.Spec.Containers, corev1.Container{Name: "patio-runtime", Image: "patio-runtime"})
			for i := range one.Spec.Containers {
				container := &one.Spec.Containers[i]
				container.Env = append(variables, container.Env...)
				container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "rbg-cluster-config", MountPath: "/etc/rbg", ReadOnly: true})
			}
			one.Spec.Volumes = append(one.Spec.Volumes, corev1.Volume{Name: "rbg-cluster-config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "qwen"}},
			}})
			one.Spec.Hostname, one.Spec.Subdomain = one.Name, "s-qwen"
			one.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}}
			pods = append(pods, one)
		}
	}
	return pods
}

// downloaded adds what KServe adds for a model: an init container that fetches it.
func downloaded(pod *corev1.Pod) {
	const volume = "kserve-provision-location"
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{
		Name: "storage-initializer", Image: "kserve/storage-initializer", Args: []string{"hf://model", "/mnt/models"},
		VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/mnt/models"}},
	})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: volume, MountPath: "/mnt/models", ReadOnly: true})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: volume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
}

// madeByKServe makes the pod of an InferenceService as a Deployment has it, and as Knative has it: with its proxy beside SGLang.
func madeByKServe(t *testing.T, text []byte) []*corev1.Pod {
	standard := podsOfRecipe(t, text)[0]
	downloaded(standard)
	labels := map[string]string{
		"app": "isvc.llama-predictor", "component": "predictor", "serving.kserve.io/inferenceservice": "llama", "pod-template-hash": "5d9f8c7b6",
	}
	stamp(standard, "apps/v1", "ReplicaSet", "llama-predictor-5d9f8c7b6", labels)
	knative := standard.DeepCopy()
	knative.Name = "knative"
	knative.Labels["serving.knative.dev/revision"] = "llama-predictor-00001"
	knative.Spec.Containers[0].Env = append(knative.Spec.Containers[0].Env,
		corev1.EnvVar{Name: "PORT", Value: "8080"}, corev1.EnvVar{Name: "K_REVISION", Value: "llama-predictor-00001"})
	knative.Spec.Containers = append(knative.Spec.Containers, corev1.Container{
		Name: "queue-proxy", Image: "knative/queue", Ports: []corev1.ContainerPort{{Name: "queue-port", ContainerPort: 8012}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8012)}}},
	})
	return []*corev1.Pod{standard, knative}
}

// router is the native sidecar that llm-d puts before the engine of a decode pod.
func router(name string) corev1.Container {
	return corev1.Container{
		Name: name, Image: "ghcr.io/llm-d/llm-d-routing-sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Args: []string{"--port=8000"}, Ports: []corev1.ContainerPort{{ContainerPort: 8000}},
	}
}

// madeByLLMInferenceService makes the pods of an LLMInferenceService: decode first, behind a router.
func madeByLLMInferenceService(t *testing.T, text []byte) []*corev1.Pod {
	pods := podsOfRecipe(t, text)
	for i, role := range []string{"decode", "prefill"} {
		pod := pods[i]
		stamp(pod, "apps/v1", "ReplicaSet", "qwen-kserve-"+role, map[string]string{
			"app.kubernetes.io/name": "qwen", "app.kubernetes.io/part-of": "llminferenceservice", "kserve.io/component": "workload", "llm-d.ai/role": role,
		})
		if role == "decode" {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, router("llm-d-routing-sidecar"))
		}
		downloaded(pod)
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "HOME", Value: "/home"})
	}
	return pods
}

// madeByLLMD makes the pods of the chart llm-d-modelservice from its values.
func madeByLLMD(t *testing.T, text []byte) []*corev1.Pod {
	type role struct {
		Containers []struct {
			corev1.Container
			ModelCommand     string `json:"modelCommand"`
			MountModelVolume bool   `json:"mountModelVolume"`
		} `json:"containers"`
	}
	var values struct {
		ModelArtifacts struct {
			Labels map[string]string `json:"labels"`
		} `json:"modelArtifacts"`
		Decode  role `json:"decode"`
		Prefill role `json:"prefill"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for name, role := range map[string]role{"decode": values.Decode, "prefill": values.Prefill} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		stamp(pod, "apps/v1", "ReplicaSet", "qwen-"+name, values.ModelArtifacts.Labels)
		pod.Labels["llm-d.ai/role"] = name
		if name == "decode" {
			pod.Spec.InitContainers = []corev1.Container{router("routing-proxy")}
		}
		for _, container := range role.Containers {
			if container.ModelCommand != "custom" || !container.MountModelVolume {
				t.Fatalf("the values of %s are read as if modelCommand were custom, with the volume of the model", name)
			}
			container.Env = append(container.Env, corev1.EnvVar{Name: "TP_SIZE", Value: "4"}, corev1.EnvVar{Name: "HF_HOME", Value: "/model-cache"})
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "model-storage", MountPath: "/model-cache"})
			pod.Spec.Containers = append(pod.Spec.Containers, container.Container)
		}
		pod.Spec.Volumes = []corev1.Volume{{Name: "model-storage", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pods = append(pods, pod)
	}
	return pods
}

// gatedByKueue makes the pod of a Deployment in a queue.
func gatedByKueue(t *testing.T, text []byte) []*corev1.Pod {
	pod := podsOfRecipe(t, text)[0]
	stamp(pod, "apps/v1", "ReplicaSet", "llama-5d9f8c7b6", map[string]string{
		"kueue.x-k8s.io/queue-name": "engines", "kueue.x-k8s.io/managed": "true",
	})
	pod.Annotations = map[string]string{"kueue.x-k8s.io/pod-suspending-parent": "deployment", "kueue.x-k8s.io/role-hash": "6b1d1f38"}
	pod.Finalizers = []string{"kueue.x-k8s.io/managed"}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}, {Name: "kueue.x-k8s.io/topology"}}
	return []*corev1.Pod{pod}
}
