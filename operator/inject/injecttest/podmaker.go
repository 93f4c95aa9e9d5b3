// SPDX-License-Identifier: Apache-2.0

package injecttest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/plan"
)

// PodMaker turns bytes into a pod. After the last byte, every choice is the first.
type PodMaker struct {
	Choices      []byte
	Config, Word string
}

func (m *PodMaker) choose(n int) int {
	if len(m.Choices) == 0 {
		return 0
	}
	c := int(m.Choices[0]) % n
	m.Choices = m.Choices[1:]
	return c
}

// Pod returns the pod that the bytes choose.
func (m *PodMaker) Pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "engine", Namespace: "serving", Labels: map[string]string{"peercache.io/inject": "kv"},
	}}
	for range m.choose(3) {
		key := []string{names.AnnotationContainer, names.AnnotationGroup, names.AnnotationSkipReason, names.AnnotationInjected, "user", plan.MultusNetworks,
			names.AnnotationPartly, names.AnnotationTakesFlags, names.AnnotationEngine, names.AnnotationVLLMHostMemory, names.AnnotationHoldout}[m.choose(11)]
		value := []string{
			"main", "sglang", "main,other", "numa1", "kv", m.Word, `[{"name":"rail1"}]`, " [ ] ", "a/b@rail0, rail1", "true", "vllm", "512Mi",
		}[m.choose(12)]
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[key] = value
	}
	for range m.choose(2) {
		template := []string{"nics", "other"}[m.choose(2)]
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{
			Name: []string{"rail0", "gpu"}[m.choose(2)], ResourceClaimTemplateName: &template,
		})
	}
	pod.Spec.HostNetwork = m.choose(6) == 1
	pod.Spec.DNSPolicy = []corev1.DNSPolicy{"", corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault}[m.choose(4)]
	for range m.choose(3) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, m.volume())
	}
	for range m.choose(3) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, m.container())
	}
	for range 1 + m.choose(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, m.container())
	}
	if m.choose(3) == 1 {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(m.choose(2)))}
	}
	return pod
}

func (m *PodMaker) volume() corev1.Volume {
	v := corev1.Volume{Name: []string{"models", names.Client, plan.SocketVolume, plan.TLSVolume, plan.TokenVolume, names.Shm}[m.choose(6)]}
	switch m.choose(5) {
	case 3:
		v.Image = &corev1.ImageVolumeSource{Reference: "ghcr.io/peercache/peercache/client:0.1.0"}
	case 4:
		v.Secret = &corev1.SecretVolumeSource{SecretName: "kv-peers-tls"} //nolint:gosec // it is a name
	case 0:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		if m.choose(2) == 1 {
			v.EmptyDir.Medium, v.EmptyDir.SizeLimit = corev1.StorageMediumMemory, new(resource.MustParse([]string{"1Gi", "100Gi"}[m.choose(2)]))
		}
	case 1:
		v.HostPath = &corev1.HostPathVolumeSource{Path: "/run/peercache/serving/kv" + []string{".tenants", ""}[m.choose(2)]}
	default:
		v.ConfigMap = &corev1.ConfigMapVolumeSource{}
	}
	return v
}

func (m *PodMaker) container() corev1.Container {
	c := corev1.Container{Name: []string{"main", "sglang", "other", names.Client, plan.ContainerName, "vllm"}[m.choose(6)]}
	c.Image = []string{"x", "vllm/vllm-openai:v0.33.0", "registry:5000/vllm"}[m.choose(3)]
	launch := [][]string{
		{"python3", "-m", "sglang.launch_server"},
		{"sglang", "serve"},
		{"bash", "-c", "exec python3 -m sglang.launch_server $PEERCACHE_SGLANG_ARGS"},
		{"bash", "-c", "sglang serve \\\n  --hicache-storage-backend \\\n mooncake $PEERCACHE_SGLANG_ARGS"},
		{"sh", "-lc"},
		{"vllm", "serve", "/models/qwen"},
		{"python3", "-m", "vllm.entrypoints.openai.api_server"},
		{"bash", "-c", "exec vllm serve /models/qwen $PEERCACHE_VLLM_ARGS"},
		{"nginx"},
		nil,
	}
	words := append([]string{}, launch[m.choose(len(launch))]...)
	for range m.choose(8) {
		words = append(words, m.argument()...)
	}
	split := m.choose(len(words) + 1)
	if split > 0 {
		c.Command = words[:split:split]
	}
	if split < len(words) {
		c.Args = words[split:]
	}
	for range m.choose(4) {
		c.Env = append(c.Env, m.variable())
	}
	if m.choose(3) == 1 {
		c.EnvFrom = []corev1.EnvFromSource{{}}
	}
	for range m.choose(3) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name:      []string{"models", names.Client, plan.SocketVolume, names.Shm}[m.choose(4)],
			MountPath: []string{"/models", names.ClientDir, "/run/peercache", "/opt", "/run/peercache/x/", names.ClientCopyDir, m.Word, "/etc/peercache-tls", "/dev/shm"}[m.choose(9)],
			SubPath:   []string{"", "serving", "other"}[m.choose(3)],
		})
	}
	m.needs(&c)
	return c
}

// needs adds requests, rights and ports to a container.
func (m *PodMaker) needs(c *corev1.Container) {
	for range m.choose(3) {
		name := []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU, "rdma/rail0", "hugepages-1Gi"}[m.choose(4)]
		quantity := resource.MustParse([]string{"1", "64Gi", "100Gi"}[m.choose(3)])
		if c.Resources.Limits == nil {
			c.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
		}
		c.Resources.Limits[name], c.Resources.Requests[name] = quantity, quantity
	}
	switch m.choose(5) {
	case 1:
		c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	case 2:
		c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}}
	case 3:
		c.Ports = []corev1.ContainerPort{{ContainerPort: 31997}}
	}
}

func (m *PodMaker) argument() []string {
	switch m.choose(22) {
	case 0:
		return []string{"--model-path", "/models/" + m.Word}
	case 1:
		return []string{"--enable-hicache"}
	case 2:
		return []string{"--hicache-storage-backend", "dynamic"}
	case 3:
		return []string{"--hicache-storage-backend=" + []string{"dynamic", "peercache", "mooncake", m.Word}[m.choose(4)]}
	case 4:
		return []string{"--hicache-storage-backend-extra-config", m.Config}
	case 5:
		return []string{"--hicache-storage-backend-extra-config=" + m.Config}
	case 6:
		return []string{"--disable-radix-cache"}
	case 7:
		return []string{"--disaggregation-mode=" + []string{"decode", "prefill"}[m.choose(2)]}
	case 8:
		return []string{"--disaggregation-decode-enable-offload-kvcache"}
	case 9:
		return []string{"--config", "/etc/sglang.yaml"}
	case 10:
		return []string{"--hicache-storage-backend-extra-config"}
	case 11:
		return []string{"--page-size" + []string{"", "=1", "=16"}[m.choose(3)]}
	case 12:
		return []string{"--speculative-algorithm", []string{"EAGLE", "ngram"}[m.choose(2)], "--speculative-eagle-topk", []string{"1", "4"}[m.choose(2)]}
	case 13:
		return []string{"--chunked-prefill-size=" + []string{"4096", "1000", "-1", m.Word}[m.choose(4)]}
	case 14:
		return []string{"--attention-backend", []string{"fa3", "flashmla", m.Word}[m.choose(3)]}
	case 16:
		return []string{"--hicache-write-policy", []string{"write_through", "write_back"}[m.choose(2)], "--hicache-ratio=" + []string{"2", "0.5"}[m.choose(2)]}
	case 15:
		return []string{"--nnodes", []string{"1", "2", "$(SIZE)"}[m.choose(3)]}
	case 17:
		return []string{"--kv-transfer-config", m.connector()}
	case 18:
		return []string{"--kv_transfer_config=" + m.connector()}
	case 19:
		return [][]string{
			{"--kv-transfer-config.kv_connector", "PeerCacheConnector", "--kv-transfer.kv_connector_module_path=peercache.vllm"},
			{"--kv-transfer-config.kv_connector=" + m.Word}, {"--kv-transfer-config." + m.Word}, {"--kv-transfer-config"},
		}[m.choose(4)]
	case 20:
		return []string{[]string{"--kv-offloading-size=4", "--no_enable_prefix_caching", "--enable-prefix-caching", "-dp=2"}[m.choose(4)]}
	default:
		return []string{m.Word}
	}
}

func (m *PodMaker) connector() string {
	return []string{
		`{"kv_connector":"PeerCacheConnector","kv_connector_module_path":"peercache.vllm","kv_connector_extra_config":{"cpu_bytes_to_use":1G}}`,
		`{"kv_connector":"NixlConnector"}`, m.Config,
	}[m.choose(3)]
}

func (m *PodMaker) variable() corev1.EnvVar {
	v := corev1.EnvVar{Name: []string{names.EnvPythonPath, names.EnvUserPythonPath, names.EnvSocket, names.EnvFlags, "HOME", names.EnvNodeID, names.EnvVLLMFlags}[m.choose(7)]}
	switch m.choose(5) {
	case 0:
		v.Value = "/app"
	case 1:
		v.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}
	case 2:
		v.Value = m.Word
	case 3:
		v.Value = names.ClientDir + ":/x"
	}
	return v
}
