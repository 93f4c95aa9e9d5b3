// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/operator/plan"
)

// FuzzInject builds pods out of the pieces that injection cares about and checks the invariants on them.
//
//	go test ./operator/inject -run '^$' -fuzz FuzzInject -fuzztime 30s
func FuzzInject(f *testing.F) {
	f.Add([]byte{}, "", "")
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, `{"tag":"x"}`, "/app")
	for seed := range 400 {
		bytes := make([]byte, 40+seed%29)
		for i := range bytes {
			bytes[i] = byte(seed*31 + i*i*7 + i*seed)
		}
		f.Add(bytes, `{ "backend_name" : "peercache" }`, "--model-path")
	}
	f.Fuzz(func(t *testing.T, choices []byte, config, word string) {
		if !utf8.ValidString(config) || !utf8.ValidString(word) {
			t.Skip("an API server sends no other text")
		}
		pod := (&podMaker{choices: choices, config: config, word: word}).pod()
		facts := fuzzFacts[len(choices)%len(fuzzFacts)]()
		before := pod.DeepCopy()
		result := Inject(pod, facts)
		checkResult(t, before, pod, result, facts)

		if result.Injected {
			operations, err := diff(pod, result.Pod)
			if err != nil {
				t.Fatal(err)
			}
			checkApplied(t, pod, result.Pod, operations)
		}

		// What injection gives shares no memory with the original.
		if result.Injected {
			scribble(result.Pod)
			if !reflect.DeepEqual(before, pod) {
				t.Errorf("changing the result changes the original")
			}
		}
	})
}

// fuzzFacts are all modes and deliveries, and clusters that ask much of a pod.
var fuzzFacts = []func() Facts{
	testFacts,
	func() Facts {
		facts := testFacts()
		facts.Groups = []string{"numa0", "numa1"}
		facts.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		return facts
	},
	func() Facts { return factsOfCluster("serving", imageVolume, pullSecret) },
	func() Facts { return factsOfCluster("serving", preinstalled) },
	func() Facts { return factsOfCluster("serving", sidecar, pullSecret) },
	func() Facts { return factsOfCluster("serving", sidecar, imageVolume, tls) },
	func() Facts { return factsOfCluster("caches", sidecar, sharedRails) },
	func() Facts { return factsOfCluster("serving", sidecar, sharedRails, hugeGigabyte) },
	func() Facts { return factsOfCluster("serving", sidecar, draRails) },
	func() Facts { return factsOfCluster("serving", embeddedNode) },
	func() Facts { return factsOfCluster("serving", embeddedNode, hugeGigabyte, tls) },
	func() Facts { return factsOfCluster("serving", embeddedNode, sharedRails, tls) },
	func() Facts { return factsOfCluster("serving", embeddedNode, draRails) },
}

// FuzzMergeExtraConfig: whatever the user wrote, the result is refused or is a JSON object with all of it.
func FuzzMergeExtraConfig(f *testing.F) {
	for _, value := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":{"b":"}"}}`, `{"socket":null}`, `{"a":1,"a":2}`, `[]`, `null`, `"x"`, `@f`, ``,
		`{"module_path":"peercache.store"}` + "\n", `{"backend_name":1}`, "{\"\u2028\":\"\xff\"}",
	} {
		f.Add(value)
	}
	embedding := embedded(&corev1.Pod{}, Facts{}, factsOfCluster("serving", embeddedNode, sharedRails, tls).Node("numa0").Node).settings
	f.Fuzz(func(t *testing.T, value string) {
		for _, settings := range [][]setting{socketSettings("/run/peercache/default.sock"), embedding} {
			merged, reason := mergeExtraConfig(value, settings)
			if reason != "" {
				continue
			}
			if err := wordsKept([]string{value}, []string{merged}); err != nil {
				t.Error(err)
			}
			for _, s := range settings {
				if !strings.Contains(merged, `"`+s.key+`"`) && (s.instead == "" || !strings.Contains(merged, `"`+s.instead+`"`)) {
					t.Errorf("%q lacks %s", merged, s.key)
				}
			}
			if again, reason := mergeExtraConfig(merged, settings); again != merged || reason != "" {
				t.Errorf("%q became %q (%s)", merged, again, reason)
			}
		}
	})
}

// podMaker turns bytes into a pod. When the bytes are used up, every choice is the first.
type podMaker struct {
	choices      []byte
	config, word string
}

func (m *podMaker) choose(n int) int {
	if len(m.choices) == 0 {
		return 0
	}
	c := int(m.choices[0]) % n
	m.choices = m.choices[1:]
	return c
}

func (m *podMaker) pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "engine", Namespace: "serving", Labels: map[string]string{"peercache.io/inject": "kv"},
	}}
	for range m.choose(3) {
		key := []string{AnnotationContainer, AnnotationGroup, AnnotationSkipReason, AnnotationInjected, "user", plan.MultusNetworks}[m.choose(6)]
		value := []string{
			"main", "sglang", "main,other", "numa1", "kv", m.word, `[{"name":"rail1"}]`, " [ ] ", "a/b@rail0, rail1",
		}[m.choose(9)]
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

func (m *podMaker) volume() corev1.Volume {
	v := corev1.Volume{Name: []string{"models", clientName, plan.SocketVolume, plan.TLSVolume}[m.choose(4)]}
	switch m.choose(5) {
	case 3:
		v.Image = &corev1.ImageVolumeSource{Reference: "docker.io/peercache/client:0.1.0"}
	case 4:
		v.Secret = &corev1.SecretVolumeSource{SecretName: "kv-peers-tls"}
	case 0:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case 1:
		v.HostPath = &corev1.HostPathVolumeSource{Path: "/run/peercache/serving/kv"}
	default:
		v.ConfigMap = &corev1.ConfigMapVolumeSource{}
	}
	return v
}

func (m *podMaker) container() corev1.Container {
	c := corev1.Container{Name: []string{"main", "sglang", "other", clientName, plan.ContainerName}[m.choose(5)]}
	launch := [][]string{
		{"python3", "-m", "sglang.launch_server"},
		{"sglang", "serve"},
		{"bash", "-c", "exec python3 -m sglang.launch_server $PEERCACHE_SGLANG_ARGS"},
		{"sh", "-lc"},
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
			Name:      []string{"models", clientName, plan.SocketVolume}[m.choose(3)],
			MountPath: []string{"/models", clientDir, "/run/peercache", "/opt", "/run/peercache/x/", clientCopyDir, m.word, "/etc/peercache-tls"}[m.choose(8)],
		})
	}
	m.needs(&c)
	return c
}

// needs are requests, rights and ports of a container.
func (m *podMaker) needs(c *corev1.Container) {
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

func (m *podMaker) argument() []string {
	switch m.choose(12) {
	case 0:
		return []string{"--model-path", "/models/" + m.word}
	case 1:
		return []string{"--enable-hicache"}
	case 2:
		return []string{"--hicache-storage-backend", "dynamic"}
	case 3:
		return []string{"--hicache-storage-backend=" + []string{"dynamic", "peercache", "mooncake", m.word}[m.choose(4)]}
	case 4:
		return []string{"--hicache-storage-backend-extra-config", m.config}
	case 5:
		return []string{"--hicache-storage-backend-extra-config=" + m.config}
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
	default:
		return []string{m.word}
	}
}

func (m *podMaker) variable() corev1.EnvVar {
	v := corev1.EnvVar{Name: []string{envPythonPath, envUserPythonPath, envSocket, envFlags, "HOME", envNodeID}[m.choose(6)]}
	switch m.choose(5) {
	case 0:
		v.Value = "/app"
	case 1:
		v.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}
	case 2:
		v.Value = m.word
	case 3:
		v.Value = clientDir + ":/x"
	}
	return v
}

// scribble overwrites everything that a shallow copy would share.
func scribble(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			for j := range list[i].Command {
				list[i].Command[j] = "scribble"
			}
			for j := range list[i].Args {
				list[i].Args[j] = "scribble"
			}
			for j := range list[i].Env {
				list[i].Env[j] = corev1.EnvVar{Name: "scribble"}
			}
			for name := range list[i].Resources.Limits {
				list[i].Resources.Limits[name] = resource.MustParse("7")
			}
			if s := list[i].SecurityContext; s != nil && s.Capabilities != nil {
				s.Capabilities.Add = append(s.Capabilities.Add[:0], "scribble")
			}
			for j := range list[i].VolumeMounts {
				list[i].VolumeMounts[j].Name = "scribble"
			}
		}
	}
	for i := range pod.Spec.Volumes {
		pod.Spec.Volumes[i] = corev1.Volume{Name: "scribble"}
	}
	for key := range pod.Annotations {
		pod.Annotations[key] = "scribble"
	}
}
