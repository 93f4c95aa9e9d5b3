// SPDX-License-Identifier: Apache-2.0

package inject

import (
	goflag "flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/injecttest"
	"github.com/peercache/peercache/operator/plan"
)

// testdata/<case>.in.yaml is a pod, and testdata/<case>.out.yaml the pod after injection. After an intended change, write
// the latter and read the diff:
//
//	go test ./operator/inject -run TestGolden -update && git diff
var update = goflag.Bool("update", false, "write the expected pods of TestGolden anew")

func testFacts() Facts {
	return Facts{
		Cluster: "kv", Namespace: "serving", PodNamespace: "serving", Groups: []string{"default"},
		ClientImage: "docker.io/peercache/client:0.1.0", ClientPullPolicy: corev1.PullIfNotPresent,
	}
}

// factsOf has the facts of the cases that need other facts than testFacts.
var factsOf = map[string]func(*Facts){
	"group-annotation":        factsWith("serving", injecttest.NUMARails),
	"group-unknown":           factsWith("serving", injecttest.NUMARails),
	"group-first-of-several":  func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
	"group-by-gpu":            factsWith("serving", injecttest.NUMARails),
	"cluster-elsewhere":       func(f *Facts) { f.Namespace = "caches" },
	"pull-secrets-of-cluster": func(f *Facts) { f.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}} },
	"pull-secret-already-there": func(f *Facts) {
		f.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}, {Name: "mirror"}}
	},

	"sharing-cluster":           factsWith("serving", injecttest.ShareAll),
	"sharing-cluster-csi":       factsWith("caches", injecttest.ShareAll, injecttest.ByDriver),
	"sidecar-tenants-elsewhere": factsWith("caches", sidecar, insecure),

	"elsewhere-images":         factsWith("caches", injecttest.OwnImages),
	"elsewhere-pull-secrets":   factsWith("caches", injecttest.PullSecret, injecttest.PullElsewhere),
	"elsewhere-image-volume":   factsWith("caches", injecttest.OwnImages, injecttest.ImageVolume),
	"sidecar-elsewhere-images": factsWith("caches", injecttest.OwnImages, sidecar, insecure, injecttest.ShareAll),
	"sidecar-elsewhere-secret": factsWith("caches", sidecar, readsSecret, insecure, injecttest.ShareAll),

	"csi":                factsWith("serving", injecttest.ByDriver),
	"csi-elsewhere":      factsWith("caches", injecttest.ByDriver),
	"csi-own-volume":     factsWith("serving", injecttest.ByDriver),
	"csi-own-writable":   factsWith("serving", injecttest.ByDriver),
	"csi-volume-taken":   factsWith("serving", injecttest.ByDriver),
	"csi-hostpath-taken": factsWith("serving", injecttest.ByDriver),
	"csi-driver-missing": func(f *Facts) {
		factsWith("serving", injecttest.ByDriver)(f)
		f.DriverMissing = true
	},

	"image-volume":        factsWith("serving", injecttest.ImageVolume, injecttest.PullSecret),
	"image-volume-taken":  factsWith("serving", injecttest.ImageVolume),
	"preinstalled":        factsWith("serving", injecttest.Preinstalled),
	"preinstalled-script": factsWith("serving", injecttest.Preinstalled),

	"sidecar":                   factsWith("serving", sidecar, injecttest.PullSecret),
	"sidecar-in-script":         factsWith("serving", sidecar, injecttest.ImageVolume),
	"sidecar-elsewhere":         factsWith("caches", sidecar, insecure, injecttest.ShareAll),
	"sidecar-guaranteed":        factsWith("serving", sidecar),
	"sidecar-host-network":      factsWith("serving", sidecar),
	"sidecar-dns-of-machine":    factsWith("serving", sidecar),
	"sidecar-port-taken":        factsWith("serving", sidecar),
	"sidecar-name-taken":        factsWith("serving", sidecar),
	"sidecar-volume-taken":      factsWith("serving", sidecar),
	"sidecar-long-name":         factsWith("serving", sidecar),
	"sidecar-several":           factsWith("serving", sidecar),
	"sidecar-leader-worker-set": factsWith("serving", sidecar),
	"sidecar-own-memory":        factsWith("serving", sidecar, hugeGigabyte),
	"sidecar-tls":               factsWith("serving", sidecar, tls),
	"sidecar-token-elsewhere":   factsWith("caches", sidecar),
	"sidecar-token-named":       factsWith("serving", sidecar, namedToken),
	"sidecar-tls-elsewhere":     factsWith("caches", sidecar, tls),
	"sidecar-rails-with-tcp":    factsWith("serving", sidecar, sharedRails, overTCP),
	"sidecar-rails-interface":   factsWith("serving", sidecar, sharedRails, overTCP, reachedAtRails),
	"sidecar-rdma":              factsWith("serving", sidecar, sharedRails),
	"sidecar-rdma-group":        factsWith("serving", sidecar, sharedRails),
	"sidecar-rdma-elsewhere":    factsWith("caches", sidecar, sharedRails, insecure, injecttest.ShareAll),
	"sidecar-rdma-networks":     factsWith("serving", sidecar, sharedRails),
	"sidecar-rdma-interface":    factsWith("serving", sidecar, sharedRails),
	"sidecar-rdma-not-networks": factsWith("serving", sidecar, sharedRails),
	"sidecar-dra":               factsWith("serving", sidecar, draRails),
	"sidecar-dra-elsewhere":     factsWith("caches", sidecar, draRails),
	"sidecar-dra-claim-taken":   factsWith("serving", sidecar, draRails),
	"sidecar-rails-of-host":     factsWith("serving", sidecar, hostRail),
	"sidecar-addresses":         factsWith("serving", sidecar, sharedRails, withAddress),

	"embedded":                  factsWith("serving", embeddedNode),
	"embedded-in-script":        factsWith("serving", embeddedNode),
	"embedded-elsewhere":        factsWith("caches", embeddedNode, insecure, injecttest.ShareAll),
	"embedded-host-network":     factsWith("serving", embeddedNode),
	"embedded-long-name":        factsWith("serving", embeddedNode),
	"embedded-dns":              factsWith("serving", embeddedNode),
	"embedded-token-elsewhere":  factsWith("caches", embeddedNode),
	"embedded-tls":              factsWith("serving", embeddedNode, tls),
	"embedded-memory":           factsWith("serving", embeddedNode),
	"embedded-memory-short":     factsWith("serving", embeddedNode),
	"embedded-huge-pages":       factsWith("serving", embeddedNode, hugeGigabyte),
	"embedded-huge-pages-short": factsWith("serving", embeddedNode, hugeGigabyte),
	"embedded-no-resources":     factsWith("serving", embeddedNode, hugeGigabyte),
	"embedded-rdma":             factsWith("serving", embeddedNode, sharedRails),
	"embedded-rails-interface":  factsWith("serving", embeddedNode, sharedRails, overTCP, reachedAtRails),
	"embedded-rdma-has-device":  factsWith("serving", embeddedNode, sharedRails),
	"embedded-dra":              factsWith("serving", embeddedNode, draRails),
	"embedded-config":           factsWith("serving", embeddedNode, sharedRails),
	"embedded-config-socket":    factsWith("serving", embeddedNode),
	"embedded-config-other":     factsWith("serving", embeddedNode),
}

// factsWith returns the facts of a cluster in a namespace. The pods are in namespace serving.
func factsWith(clusterNamespace string, changes ...func(*v1alpha1.PeerCacheClusterSpec)) func(*Facts) {
	return func(f *Facts) { *f = factsOfCluster(clusterNamespace, changes...) }
}

var testOptions = Options{
	ClientImage: "docker.io/peercache/client:0.1.0",
	Plan:        plan.Facts{DataplaneImage: "docker.io/peercache/dataplane:0.1.0"},
}

func factsOfCluster(namespace string, changes ...func(*v1alpha1.PeerCacheClusterSpec)) Facts {
	return FactsFor(clusterWith(namespace, changes...), "serving", testOptions)
}

// clusterWith returns a small cluster with the defaults of the API server, after the changes.
func clusterWith(namespace string, changes ...func(*v1alpha1.PeerCacheClusterSpec)) *v1alpha1.PeerCacheCluster {
	return testCluster(namespace, func(c *v1alpha1.PeerCacheCluster) {
		c.Spec = v1alpha1.PeerCacheClusterSpec{
			ImagePullPolicy: corev1.PullIfNotPresent,
			Transport:       v1alpha1.TransportTCP,
			Layout:          v1alpha1.LayoutPerNUMA,
			Memory:          v1alpha1.MemorySpec{Pool: resource.MustParse("64Gi"), HugePages: v1alpha1.HugePagesNone},
			Resources:       v1alpha1.ResourcesSpec{CPU: resource.MustParse("1"), MemoryOverhead: resource.MustParse("512Mi")},
			Discovery:       v1alpha1.DiscoverySpec{Replicas: 3, Port: 31998},
			Monitoring:      v1alpha1.MonitoringSpec{Port: 31997},
			Timing: v1alpha1.TimingSpec{
				LeaseMilliseconds: 1000, PeerTimeoutMilliseconds: 1000, HeartbeatMilliseconds: 500, MemberTTLMilliseconds: 3000,
			},
			Injection: v1alpha1.InjectionSpec{
				Mode:   v1alpha1.InjectionNode,
				Client: v1alpha1.ClientSpec{Delivery: v1alpha1.ClientInitContainer, ImagePullPolicy: corev1.PullIfNotPresent},
			},
		}
		for _, change := range changes {
			change(&c.Spec)
		}
	})
}

func sidecar(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionSidecar }
func overTCP(s *v1alpha1.PeerCacheClusterSpec) { s.Transport = v1alpha1.TransportTCP }

// reachedAtRails gives each group a rail with the interface of that name.
func reachedAtRails(s *v1alpha1.PeerCacheClusterSpec) {
	s.Rails[0].Network.Interface, s.Rails[2].Network.Interface, s.Discovery.Interface = "peers", "peers", "peers"
}

func embeddedNode(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Mode = v1alpha1.InjectionEmbedded
	injecttest.Preinstalled(s)
}

func insecure(s *v1alpha1.PeerCacheClusterSpec) { s.Security.Peers = v1alpha1.PeersInsecure }

func namedToken(s *v1alpha1.PeerCacheClusterSpec) {
	s.Security.Token = &v1alpha1.TokenSpec{SecretName: "kv-peers-token"}
}

// readsSecret gives nodes an environment from a Secret.
func readsSecret(s *v1alpha1.PeerCacheClusterSpec) {
	s.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(`{"containers": [{"name": "peercached",
		"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "victims", "key": "password"}}}]}]}`)}}
}

func hugeGigabyte(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Memory = &v1alpha1.MemorySpec{Pool: resource.MustParse("8Gi"), HugePages: v1alpha1.HugePages1Gi}
	if s.Injection.Mode == v1alpha1.InjectionSidecar {
		s.Injection.Resources = &v1alpha1.ResourcesSpec{CPU: resource.MustParse("2"), MemoryOverhead: resource.MustParse("1Gi")}
	}
}

func tls(s *v1alpha1.PeerCacheClusterSpec) {
	s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "kv-peers-tls", PeerName: "kv.peercache.internal"}
}

// sharedRails sets two groups, numa0 with two rails and numa1 with one.
func sharedRails(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport = v1alpha1.TransportRDMA
	for _, rail := range []struct {
		name string
		numa int32
	}{{"rail0", 0}, {"rail1", 0}, {"rail2", 1}} {
		s.Rails = append(s.Rails, v1alpha1.Rail{
			Name: rail.name, NUMANode: new(rail.numa), Attachment: v1alpha1.AttachmentSharedDevicePlugin,
			SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: v1alpha1.ExtendedResource("rdma/" + rail.name), Device: v1alpha1.DeviceName("mlx5_" + rail.name[4:])},
			Network:            &v1alpha1.RailNetwork{Name: rail.name, Interface: rail.name},
		})
	}
	s.Rails[1].Network.Interface = ""
	s.Rails[2].Network.Name = "fabric/rail2"
}

func withAddress(s *v1alpha1.PeerCacheClusterSpec) {
	s.Rails[0].Network.IPs = []string{"10.0.0.1/24"}
}

func draRails(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport = v1alpha1.TransportRDMA
	for _, name := range []string{"rail0", "rail1"} {
		s.Rails = append(s.Rails, v1alpha1.Rail{
			Name: name, Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "nics", Request: name},
		})
	}
}

func hostRail(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport = v1alpha1.TransportRDMA
	s.Rails = []v1alpha1.Rail{{Name: "rail0", Attachment: v1alpha1.AttachmentHostNetwork, HostNetwork: &v1alpha1.HostDevice{Device: "mlx5_0"}}}
}

func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) < 120 {
		t.Fatalf("found %d cases in testdata (error %v), which must hold at least 120", len(inputs), err)
	}
	seen := map[string]bool{}
	for _, input := range inputs {
		name := strings.TrimSuffix(filepath.Base(input), ".in.yaml")
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			pod := injecttest.ReadPod(t, input)
			facts := testFacts()
			if adjust, ok := factsOf[name]; ok {
				adjust(&facts)
			}
			before := pod.DeepCopy()
			result := Inject(pod, facts)
			checkResult(t, before, pod, result, facts)

			output := strings.Replace(input, ".in.yaml", ".out.yaml", 1)
			got, err := yaml.Marshal(result.Pod)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(output, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(output)
			if err != nil {
				t.Fatalf("%v: write it with -update", err)
			}
			if string(got) != string(want) {
				t.Errorf("the pod differs from %s; got:\n%s", output, got)
			}
		})
	}
	for name := range factsOf {
		if !seen[name] {
			t.Errorf("case %s has facts but no testdata/%s.in.yaml", name, name)
		}
	}
	outputs, err := filepath.Glob("testdata/*.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, output := range outputs {
		if !slices.Contains(inputs, strings.Replace(output, ".out.yaml", ".in.yaml", 1)) {
			t.Errorf("%s belongs to no case", output)
		}
	}
}
