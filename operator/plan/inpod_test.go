// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/peercache/peercache/api/v1alpha1"
)

func mustNodeInPod(t *testing.T, cluster *v1alpha1.PeerCacheCluster, group, podNamespace string) *InPod {
	t.Helper()
	node, problem := NodeInPod(cluster, group, podNamespace, testFacts)
	if problem != nil {
		t.Fatal(problem)
	}
	return node
}

// TestSidecarHasTheSettingsOfNodes compares a sidecar with the cluster's own nodes, which read a file.
func TestSidecarHasTheSettingsOfNodes(t *testing.T) {
	cluster := testCluster(withRails(v1alpha1.TransportRDMA, shared("a", 0), shared("b", 1)), func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails[0].SharedDevicePlugin.Device = "mlx5_0"
		s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "kv-peers-tls", PeerName: "kv.internal"}
		s.Timing.LeaseMilliseconds = 1234
	})
	desired := mustPlan(t, cluster)
	own := desired.DaemonSets[0].Spec.Template.Spec.Containers[0]
	node := mustNodeInPod(t, cluster, "numa0", "inference")
	sidecar := node.Sidecar

	has := map[string]string{}
	for _, v := range sidecar.Env {
		has[v.Name] = v.Value
	}
	for line := range strings.Lines(desired.Config.Data[configKey]) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if name == "tenants-dir" { // a pod has one namespace, so a sidecar needs no tenants
			value = ""
		}
		variable := variableOf(name)
		if has[variable] != strings.Trim(value, `"`) {
			t.Errorf("the file says %s = %s, the sidecar's %s is %q", name, value, variable, has[variable])
		}
	}
	for _, v := range own.Env {
		if v.Name == "PEERCACHE_NODE_ID" || v.Name == "PEERCACHE_BYPASS_FILE" || v.ValueFrom != nil { // whose label is the user's
			continue
		}
		if has[v.Name] != v.Value {
			t.Errorf("%s is %q in a node, and %q in a sidecar", v.Name, v.Value, has[v.Name])
		}
	}
	if has["PEERCACHE_NODE_ID"] != "$(POD_NAMESPACE).$(POD_NAME)" {
		t.Errorf("id %q", has["PEERCACHE_NODE_ID"])
	}
	if !equality.Semantic.DeepEqual(sidecar.Resources, own.Resources) {
		t.Errorf("resources %+v, of a node %+v", sidecar.Resources, own.Resources)
	}
	for i, want := range []struct{ volume, secret, directory string }{
		{TokenVolume, "demo-token", "/etc/peercache-token"}, {TLSVolume, "kv-peers-tls", "/etc/peercache-tls"},
		{"peercache-tenant-secret", "demo-tenants", "/etc/peercache-tenants"},
	} {
		secret, mount := node.Secrets[i], sidecar.VolumeMounts[1+i]
		if secret.Volume.Name != want.volume || secret.Volume.Secret.SecretName != want.secret ||
			*secret.Volume.Secret.DefaultMode != 0o444 || mount != secret.Mount || mount.MountPath != want.directory || !mount.ReadOnly {
			t.Errorf("Secret %+v, mounted %+v, want %+v", secret, mount, want)
		}
	}
	if !node.RDMA || *sidecar.SecurityContext.RunAsUser != 0 || len(sidecar.SecurityContext.Capabilities.Add) != 1 {
		t.Errorf("RDMA %t, %+v", node.RDMA, sidecar.SecurityContext)
	}
}

func TestSidecarDelaysNothing(t *testing.T) {
	sidecar := mustNodeInPod(t, testCluster(), "default", "inference").Sidecar
	if sidecar.RestartPolicy == nil || *sidecar.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("restart policy %v: an init container that is not restarted keeps SGLang from starting", sidecar.RestartPolicy)
	}
	if sidecar.StartupProbe != nil || sidecar.ReadinessProbe != nil {
		t.Errorf("SGLang waits for probes: %+v, %+v", sidecar.StartupProbe, sidecar.ReadinessProbe)
	}
	own := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template.Spec.Containers[0]
	starts := own.StartupProbe.PeriodSeconds * own.StartupProbe.FailureThreshold
	if live := sidecar.LivenessProbe; live.PeriodSeconds*live.FailureThreshold < starts {
		t.Errorf("liveness %+v: the pool may take %d s", live, starts)
	}
	for _, port := range sidecar.Ports {
		if !strings.HasPrefix(port.Name, "peercache-") || len(port.Name) > 15 {
			t.Errorf("port %q", port.Name)
		}
	}
	if own.Ports[0].Name != "peer" || own.StartupProbe.HTTPGet.Port.StrVal != "http" || own.ReadinessProbe == nil {
		t.Errorf("the cluster's own nodes changed: %+v", own)
	}
	if sidecar.SecurityContext.RunAsUser != nil || !*sidecar.SecurityContext.RunAsNonRoot {
		t.Errorf("with TCP it need not be root: %+v", sidecar.SecurityContext)
	}
}

func TestNodeInPodTakesMemoryAndResourcesOfInjection(t *testing.T) {
	pools := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.NodePools = []v1alpha1.NodePool{
			{Name: "gpu", Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("3Gi")}},
			{Name: "cpu", Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("5Gi")}},
		}
	}
	inherited := mustNodeInPod(t, testCluster(pools), "default", "inference")
	if inherited.Memory.Pool.String() != "3Gi" {
		t.Errorf("pool %s, want that of the first node pool", inherited.Memory.Pool.String())
	}
	own := mustNodeInPod(t, testCluster(pools, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Injection.Memory = &v1alpha1.MemorySpec{Pool: resource.MustParse("4Gi"), HugePages: v1alpha1.HugePages2Mi}
		s.Injection.Resources = &v1alpha1.ResourcesSpec{CPU: resource.MustParse("7"), MemoryOverhead: resource.MustParse("1Gi")}
	}), "default", "inference")
	limits := own.Sidecar.Resources.Limits
	for name, want := range map[corev1.ResourceName]string{"cpu": "7", "memory": "1044Mi", "hugepages-2Mi": "4Gi"} {
		if got := limits[name]; got.String() != want {
			t.Errorf("%s %s, want %s", name, got.String(), want)
		}
	}
}

// TestNodeInPodWithTCPNeedsNoRails checks that with TCP an SGLang pod gets no device and no further network.
func TestNodeInPodWithTCPNeedsNoRails(t *testing.T) {
	node := mustNodeInPod(t, testCluster(withRails(v1alpha1.TransportTCP, shared("a", 0))), "numa0", "inference")
	if node.RDMA || len(node.Networks)+len(node.Devices)+len(node.Claims) > 0 || len(node.Sidecar.Resources.Limits) != 2 {
		t.Errorf("%+v", node)
	}
	for _, v := range node.Sidecar.Env {
		if v.Name == "PEERCACHE_NUMA_NODE" || v.Name == "PEERCACHE_DEVICE_NAME" {
			t.Errorf("%s=%s", v.Name, v.Value)
		}
	}
}

// TestNodeInPodHasTheInterfaceOfItsAddress checks that a node whose address is in a rail's network gets that network and no
// other.
func TestNodeInPodHasTheInterfaceOfItsAddress(t *testing.T) {
	cluster := testCluster(withRails(v1alpha1.TransportTCP, withInterface("a", "fast"), withInterface("b", "slow")), reachedAtInterface("fast"))
	node := mustNodeInPod(t, cluster, "default", "inference")
	if len(node.Networks) != 1 || node.Networks[0].Interface != "fast" || node.RDMA {
		t.Errorf("networks %+v, RDMA %t", node.Networks, node.RDMA)
	}
	for _, env := range [][]corev1.EnvVar{node.Sidecar.Env, mustPlan(t, cluster).DaemonSets[0].Spec.Template.Spec.Containers[0].Env} {
		if i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "PEERCACHE_ADVERTISE_ADDR" }); env[i].Value != "fast" {
			t.Errorf("others are told %q", env[i].Value)
		}
	}
}

func TestNodeInPodOfOtherNamespace(t *testing.T) {
	rails := withRails(v1alpha1.TransportAuto, shared("a", 0), shared("b", 0))
	local := func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails[0].Network = &v1alpha1.RailNetwork{Name: "fabric"} }
	for namespace, want := range map[string]string{"inference": "", "serving": "inference"} {
		node := mustNodeInPod(t, testCluster(rails, local, insecure, shareAll), "numa0", namespace)
		if node.Networks[0].Namespace != want || node.Networks[1].Namespace != "default" {
			t.Errorf("networks for a pod in %s: %+v", namespace, node.Networks)
		}
	}
}

// TestNodeInPodOfOtherNamespaceRunsOperatorImage: the owner of a cluster chooses images for its own namespace only.
func TestNodeInPodOfOtherNamespaceRunsOperatorImage(t *testing.T) {
	own := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Image, s.ImagePullPolicy = "author/node:1", corev1.PullNever
		s.PodTemplate = nodeTemplate(`{"resources": {"limits": {"example.com/a": "1"}}}`)
	}
	for namespace, want := range map[string]corev1.Container{
		"inference": {Image: "author/node:1", ImagePullPolicy: corev1.PullNever},
		"serving":   {Image: testFacts.DataplaneImage, ImagePullPolicy: corev1.PullIfNotPresent},
	} {
		got := mustNodeInPod(t, testCluster(inSidecar, own, insecure, shareAll), "default", namespace).Sidecar
		if got.Image != want.Image || got.ImagePullPolicy != want.ImagePullPolicy {
			t.Errorf("in %s runs %s, pulled %s", namespace, got.Image, got.ImagePullPolicy)
		}
	}
	// podTemplate does not apply to a node inside SGLang.
	embedded := func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionEmbedded }
	mustNodeInPod(t, testCluster(embedded, readsSecret, insecure, shareAll), "default", "serving")
}

func inSidecar(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionSidecar }

func nodeTemplate(container string) *v1alpha1.PodTemplate {
	return &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{
		Raw: []byte(`{"containers": [` + strings.Replace(container, "{", `{"name": "peercached", `, 1) + `]}`),
	}}
}

// readsSecret gives the node an environment from a Secret of its pod's namespace.
func readsSecret(s *v1alpha1.PeerCacheClusterSpec) {
	s.PodTemplate = nodeTemplate(`{"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "victims", "key": "password"}}}]}`)
}

// literal gives the node a variable whose value is in the cluster.
func literal(s *v1alpha1.PeerCacheClusterSpec) {
	s.PodTemplate = nodeTemplate(`{"env": [{"name": "X", "value": "password"}]}`)
}

func TestNodeInPodProblems(t *testing.T) {
	dra := v1alpha1.Rail{Name: "a", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "nics"}}
	addressed := shared("a", 0)
	addressed.Network.MAC = "02:00:00:00:00:01"
	tls := func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "x"} }
	for _, test := range []struct {
		reason, group, namespace string
		changes                  []func(*v1alpha1.PeerCacheClusterSpec)
	}{
		{"HostNetworkRails", "g", "inference", []func(*v1alpha1.PeerCacheClusterSpec){withRails(v1alpha1.TransportRDMA, onHost("a", "g", "mlx5_0"))}},
		{"TokenElsewhere", "default", "serving", nil},
		{"TokenElsewhere", "default", "serving", []func(*v1alpha1.PeerCacheClusterSpec){namedToken}},
		{"TLSElsewhere", "default", "serving", []func(*v1alpha1.PeerCacheClusterSpec){tls}},
		{"EnvironmentElsewhere", "default", "serving", []func(*v1alpha1.PeerCacheClusterSpec){inSidecar, readsSecret, insecure, shareAll}},
		{"EnvironmentLiteral", "default", "inference", []func(*v1alpha1.PeerCacheClusterSpec){inSidecar, literal}},
		{"TenantsElsewhere", "default", "serving", []func(*v1alpha1.PeerCacheClusterSpec){insecure}},
		{"ClaimsElsewhere", "default", "serving", []func(*v1alpha1.PeerCacheClusterSpec){withRails(v1alpha1.TransportRDMA, dra)}},
		{"AddressShared", "numa0", "inference", []func(*v1alpha1.PeerCacheClusterSpec){withRails(v1alpha1.TransportRDMA, addressed)}},
		{"HostPortConflict", "g", "inference", []func(*v1alpha1.PeerCacheClusterSpec){
			withRails(v1alpha1.TransportRDMA, onHost("a", "g", "mlx5_0"), onHost("b", "h", "mlx5_1"))}},
	} {
		cluster := testCluster(test.changes...)
		_, problem := NodeInPod(cluster, test.group, test.namespace, testFacts)
		if problem == nil || problem.Reason != test.reason {
			t.Errorf("got %v, want %s", problem, test.reason)
		}
		// In the cluster's own namespace and over TCP, the same cluster has no problem.
		if test.namespace == "serving" {
			mustNodeInPod(t, cluster, test.group, "inference")
		}
	}
	mustNodeInPod(t, testCluster(withRails(v1alpha1.TransportTCP, onHost("a", "g", "mlx5_0")), insecure, shareAll), "g", "serving")
}
