// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestPodHasTheFieldsOfTheSpec(t *testing.T) {
	pod := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.ImagePullPolicy = corev1.PullNever
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		s.Nodes = v1alpha1.NodesSpec{
			Selector:          map[string]string{"gpu": "yes"},
			Tolerations:       []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
			PriorityClassName: "system-node-critical",
		}
	})).DaemonSets[0].Spec.Template.Spec
	container := pod.Containers[0]
	if pod.NodeSelector["gpu"] != "yes" || pod.Tolerations[0].Key != "nvidia.com/gpu" ||
		pod.PriorityClassName != "system-node-critical" || pod.ImagePullSecrets[0].Name != "registry" ||
		container.ImagePullPolicy != corev1.PullNever {
		t.Errorf("spec.nodes or the image settings are lost: %+v", pod)
	}
	if pod.HostNetwork || *pod.TerminationGracePeriodSeconds != 30 {
		t.Errorf("hostNetwork %t, grace %d s", pod.HostNetwork, *pod.TerminationGracePeriodSeconds)
	}
	if !slices.Equal(container.Args, []string{"--config=/etc/peercache/peercached.toml"}) {
		t.Errorf("args are %q", container.Args)
	}
}

func TestTheTLSSecretIsMountedWhole(t *testing.T) {
	pod := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "kv-peers-tls"}
	})).DaemonSets[0].Spec.Template.Spec
	volume := volumeNamed(t, pod, "tls")
	if volume.Secret == nil || volume.Secret.SecretName != "kv-peers-tls" || *volume.Secret.DefaultMode != 0o440 ||
		len(volume.Secret.Items) != 0 {
		t.Errorf("the volume is %+v", volume)
	}
	want := corev1.VolumeMount{Name: "tls", MountPath: "/etc/peercache-tls", ReadOnly: true}
	if mounts := pod.Containers[0].VolumeMounts; !slices.Contains(mounts, want) {
		t.Errorf("the mounts are %+v", mounts)
	}
	for _, volume := range mustPlan(t, testCluster(shareAll)).DaemonSets[0].Spec.Template.Spec.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName != "demo-token" {
			t.Errorf("without TLS there is volume %+v", volume)
		}
	}
}

func TestProbes(t *testing.T) {
	container := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template.Spec.Containers[0]
	for name, test := range map[string]struct {
		probe *corev1.Probe
		path  string
	}{
		"startup":   {container.StartupProbe, "/healthz"},
		"liveness":  {container.LivenessProbe, "/healthz"},
		"readiness": {container.ReadinessProbe, "/readyz"},
	} {
		if test.probe.HTTPGet.Path != test.path || test.probe.HTTPGet.Port.StrVal != "http" {
			t.Errorf("%s asks %+v, want %s on port http", name, test.probe.HTTPGet, test.path)
		}
	}
}

func TestEnv(t *testing.T) {
	rails := withRails(v1alpha1.TransportRDMA, onHost("b", "fast", "mlx5_1"), onHost("a", "fast", "mlx5_0"))
	env := mustPlan(t, testCluster(rails)).DaemonSets[0].Spec.Template.Spec.Containers[0].Env
	position := map[string]int{}
	value := map[string]string{}
	for i, variable := range env {
		position[variable.Name] = i
		value[variable.Name] = variable.Value
	}
	for name, want := range map[string]string{
		"PEERCACHE_NODE_ID":        "$(NODE_NAME).fast",
		"PEERCACHE_GROUP":          "fast",
		"PEERCACHE_ADVERTISE_ADDR": "$(POD_IP)",
		"PEERCACHE_SOCKET":         "/run/peercache/fast.sock",
		"PEERCACHE_DEVICE_NAME":    "mlx5_0,mlx5_1",
		"PEERCACHE_NUMA_NODE":      "",
		"PEERCACHE_TRANSPORT":      "rdma",
		"PEERCACHE_POOL_SIZE":      "1Gi",
		"PEERCACHE_HUGE_PAGES":     "off",
	} {
		if value[name] != want {
			t.Errorf("%s is %q, want %q", name, value[name], want)
		}
	}
	if position["NODE_NAME"] > position["PEERCACHE_NODE_ID"] || position["POD_IP"] > position["PEERCACHE_ADVERTISE_ADDR"] {
		t.Error("a variable is used before it is defined")
	}
}

func TestNUMANode(t *testing.T) {
	apart := shared("a", 1)
	apart.NUMANode = nil
	tests := []struct {
		name  string
		rails []v1alpha1.Rail
		want  string
	}{
		{"no rails", nil, ""},
		{"known", []v1alpha1.Rail{shared("a", 1), shared("b", 1)}, "1"},
		{"unknown", []v1alpha1.Rail{apart}, ""},
		{"in part", []v1alpha1.Rail{{Name: "a", Group: "g", NUMANode: new(int32(0))}, {Name: "b", Group: "g"}}, ""},
		{"several", []v1alpha1.Rail{{Name: "a", Group: "g", NUMANode: new(int32(0))},
			{Name: "b", Group: "g", NUMANode: new(int32(1))}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			template := mustPlan(t, testCluster(withRails(v1alpha1.TransportTCP, test.rails...))).DaemonSets[0].Spec.Template
			for _, variable := range template.Spec.Containers[0].Env {
				if variable.Name == "PEERCACHE_NUMA_NODE" {
					got = variable.Value
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTCPOpensNoDevice(t *testing.T) {
	rails := withRails(v1alpha1.TransportTCP, onHost("a", "fast", "mlx5_0"))
	for _, variable := range mustPlan(t, testCluster(rails)).DaemonSets[0].Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "PEERCACHE_DEVICE_NAME" {
			t.Errorf("transport TCP names devices %q", variable.Value)
		}
	}
}

func TestSecurity(t *testing.T) {
	hostWithPlugin := onHost("a", "g", "mlx5_0")
	hostWithPlugin.HostNetwork.ResourceName = "rdma/hca"
	tests := []struct {
		name        string
		change      func(*v1alpha1.PeerCacheClusterSpec)
		privileged  bool
		hostNetwork bool
		add         []corev1.Capability
		user        int64
	}{
		{"TCP", func(*v1alpha1.PeerCacheClusterSpec) {}, false, false, nil, 31998},
		{"RDMA by plug-in", withRails(v1alpha1.TransportRDMA, shared("a", 0)), false, false,
			[]corev1.Capability{"IPC_LOCK"}, 0},
		{"RDMA on the host by plug-in", withRails(v1alpha1.TransportRDMA, hostWithPlugin), false, true,
			[]corev1.Capability{"IPC_LOCK"}, 0},
		{"RDMA on the host", withRails(v1alpha1.TransportRDMA, onHost("a", "g", "mlx5_0")), true, true, nil, 0},
		{"TCP on the host", withRails(v1alpha1.TransportTCP, onHost("a", "g", "mlx5_0")), false, true, nil, 31998},
		{"TCP with huge pages", func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HugePages = v1alpha1.HugePages2Mi }, false, false, nil, 31998},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := mustPlan(t, testCluster(test.change)).DaemonSets[0].Spec.Template.Spec
			security := pod.Containers[0].SecurityContext
			if pod.HostNetwork != test.hostNetwork {
				t.Errorf("hostNetwork is %t", pod.HostNetwork)
			}
			if test.hostNetwork != (pod.DNSPolicy == corev1.DNSClusterFirstWithHostNet) {
				t.Errorf("dnsPolicy %s cannot resolve the discovery Service", pod.DNSPolicy)
			}
			if got := security.Privileged != nil && *security.Privileged; got != test.privileged {
				t.Errorf("privileged is %t", got)
			}
			if *security.RunAsUser != test.user {
				t.Errorf("user is %d, want %d", *security.RunAsUser, test.user)
			}
			if test.user != 0 && *pod.SecurityContext.FSGroup != test.user {
				t.Errorf("Secrets are for group %d, the user is %d", *pod.SecurityContext.FSGroup, test.user)
			}
			if restricted := security.RunAsNonRoot != nil && *security.RunAsNonRoot; restricted != (test.user != 0) {
				t.Errorf("runAsNonRoot is %t", restricted)
			}
			if !*security.ReadOnlyRootFilesystem {
				t.Error("the root file system is writable")
			}
			if test.privileged {
				return
			}
			if !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
				!slices.Equal(security.Capabilities.Add, test.add) {
				t.Errorf("capabilities are %+v, want only %v", security.Capabilities, test.add)
			}
			if *security.AllowPrivilegeEscalation ||
				security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("privilege escalation or system calls are not restricted: %+v", security)
			}
		})
	}
}

// volumeNamed returns a volume of the pod by its name.
func volumeNamed(t *testing.T, pod corev1.PodSpec, name string) corev1.Volume {
	t.Helper()
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no volume %s in %+v", name, pod.Volumes)
	}
	return pod.Volumes[i]
}

func TestNodesOwnTheSocketDirectory(t *testing.T) {
	for transport, want := range map[v1alpha1.Transport]string{v1alpha1.TransportTCP: "31998:31998", v1alpha1.TransportRDMA: "0:0"} {
		pod := mustPlan(t, testCluster(withRails(transport, shared("a", 0)), shareAll)).DaemonSets[0].Spec.Template.Spec
		if len(pod.InitContainers) != 1 {
			t.Fatalf("%s: init containers are %+v", transport, pod.InitContainers)
		}
		c := pod.InitContainers[0]
		if !slices.Equal(c.Command, []string{"chown", want, "/run/peercache"}) || c.Image != pod.Containers[0].Image {
			t.Errorf("%s: runs %q of %s", transport, c.Command, c.Image)
		}
		if c.VolumeMounts[0].Name != "socket" || len(c.VolumeMounts) != 1 {
			t.Errorf("%s: mounts %+v", transport, c.VolumeMounts)
		}
		if security := c.SecurityContext; *security.RunAsUser != 0 || *security.AllowPrivilegeEscalation ||
			!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(security.Capabilities.Add, []corev1.Capability{"CHOWN"}) {
			t.Errorf("%s: may do more than chown: %+v", transport, security)
		}
		for name, limit := range c.Resources.Limits {
			if request := c.Resources.Requests[name]; request.Cmp(limit) != 0 {
				t.Errorf("%s: requests %s of %s, limited to %s: the pod is not Guaranteed", transport, request.String(), name, limit.String())
			}
			if node := pod.Containers[0].Resources.Requests[name]; node.Cmp(limit) < 0 {
				t.Errorf("%s: with %s of %s it makes the pod larger than its node", transport, limit.String(), name)
			}
		}
		if len(c.Resources.Limits) != 2 {
			t.Errorf("%s: limits are %v", transport, c.Resources.Limits)
		}
	}
}
