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
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// Every case is a pod in testdata/<case>.in.yaml and what becomes of it in testdata/<case>.out.yaml.
// After an intended change write the latter anew and read the difference:
//
//	go test ./operator/inject -run TestGolden -update && git diff
var update = goflag.Bool("update", false, "write the expected pods of TestGolden anew")

func testFacts() Facts {
	return Facts{
		Cluster: "kv", Namespace: "serving", Groups: []string{"default"},
		ClientImage: "docker.io/peercache/client:0.1.0", ClientPullPolicy: corev1.PullIfNotPresent,
	}
}

// factsOf are the facts of cases that need others than the usual.
var factsOf = map[string]func(*Facts){
	"group-annotation":        func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
	"group-unknown":           func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
	"group-first-of-several":  func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
	"cluster-elsewhere":       func(f *Facts) { f.Namespace = "caches" },
	"pull-secrets-of-cluster": func(f *Facts) { f.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}} },
	"pull-secret-already-there": func(f *Facts) {
		f.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}, {Name: "mirror"}}
	},

	"csi":                of("serving", byDriver),
	"csi-elsewhere":      of("caches", byDriver),
	"csi-own-volume":     of("serving", byDriver),
	"csi-own-writable":   of("serving", byDriver),
	"csi-volume-taken":   of("serving", byDriver),
	"csi-hostpath-taken": of("serving", byDriver),
	"csi-driver-missing": func(f *Facts) {
		of("serving", byDriver)(f)
		f.DriverMissing = true
	},

	"image-volume":        of("serving", imageVolume, pullSecret),
	"image-volume-taken":  of("serving", imageVolume),
	"preinstalled":        of("serving", preinstalled),
	"preinstalled-script": of("serving", preinstalled),

	"sidecar":                   of("serving", sidecar, pullSecret),
	"sidecar-in-script":         of("serving", sidecar, imageVolume),
	"sidecar-elsewhere":         of("caches", sidecar),
	"sidecar-guaranteed":        of("serving", sidecar),
	"sidecar-host-network":      of("serving", sidecar),
	"sidecar-dns-of-machine":    of("serving", sidecar),
	"sidecar-port-taken":        of("serving", sidecar),
	"sidecar-name-taken":        of("serving", sidecar),
	"sidecar-volume-taken":      of("serving", sidecar),
	"sidecar-long-name":         of("serving", sidecar),
	"sidecar-several":           of("serving", sidecar),
	"sidecar-leader-worker-set": of("serving", sidecar),
	"sidecar-own-memory":        of("serving", sidecar, hugeGigabyte),
	"sidecar-tls":               of("serving", sidecar, tls),
	"sidecar-tls-elsewhere":     of("caches", sidecar, tls),
	"sidecar-rails-with-tcp":    of("serving", sidecar, sharedRails, overTCP),
	"sidecar-rails-interface":   of("serving", sidecar, sharedRails, overTCP, reachedAtRails),
	"sidecar-rdma":              of("serving", sidecar, sharedRails),
	"sidecar-rdma-group":        of("serving", sidecar, sharedRails),
	"sidecar-rdma-elsewhere":    of("caches", sidecar, sharedRails),
	"sidecar-rdma-networks":     of("serving", sidecar, sharedRails),
	"sidecar-rdma-interface":    of("serving", sidecar, sharedRails),
	"sidecar-rdma-not-networks": of("serving", sidecar, sharedRails),
	"sidecar-dra":               of("serving", sidecar, draRails),
	"sidecar-dra-elsewhere":     of("caches", sidecar, draRails),
	"sidecar-dra-claim-taken":   of("serving", sidecar, draRails),
	"sidecar-rails-of-host":     of("serving", sidecar, hostRail),
	"sidecar-addresses":         of("serving", sidecar, sharedRails, withAddress),

	"embedded":                  of("serving", embeddedNode),
	"embedded-in-script":        of("serving", embeddedNode),
	"embedded-elsewhere":        of("caches", embeddedNode),
	"embedded-host-network":     of("serving", embeddedNode),
	"embedded-long-name":        of("serving", embeddedNode),
	"embedded-dns":              of("serving", embeddedNode),
	"embedded-tls":              of("serving", embeddedNode, tls),
	"embedded-memory":           of("serving", embeddedNode),
	"embedded-memory-short":     of("serving", embeddedNode),
	"embedded-huge-pages":       of("serving", embeddedNode, hugeGigabyte),
	"embedded-huge-pages-short": of("serving", embeddedNode, hugeGigabyte),
	"embedded-no-resources":     of("serving", embeddedNode, hugeGigabyte),
	"embedded-rdma":             of("serving", embeddedNode, sharedRails),
	"embedded-rails-interface":  of("serving", embeddedNode, sharedRails, overTCP, reachedAtRails),
	"embedded-rdma-has-device":  of("serving", embeddedNode, sharedRails),
	"embedded-dra":              of("serving", embeddedNode, draRails),
	"embedded-config":           of("serving", embeddedNode, sharedRails),
	"embedded-config-socket":    of("serving", embeddedNode),
	"embedded-config-other":     of("serving", embeddedNode),
}

// of gives the facts of a cluster in a namespace; the pods are in serving.
func of(clusterNamespace string, changes ...func(*v1alpha1.PeerCacheClusterSpec)) func(*Facts) {
	return func(f *Facts) { *f = factsOfCluster(clusterNamespace, changes...) }
}

var testOptions = Options{
	ClientImage: "docker.io/peercache/client:0.1.0",
	Plan:        plan.Facts{DataplaneImage: "docker.io/peercache/dataplane:0.1.0"},
}

func factsOfCluster(namespace string, changes ...func(*v1alpha1.PeerCacheClusterSpec)) Facts {
	return FactsFor(clusterWith(namespace, changes...), "serving", testOptions)
}

// clusterWith is what the API server makes of a small manifest, changed by the given functions.
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

func imageVolume(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Client.Delivery = v1alpha1.ClientImageVolume
}
func byDriver(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Socket = v1alpha1.SocketCSI }
func preinstalled(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Client.Delivery = v1alpha1.ClientPreinstalled
}
func sidecar(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionSidecar }
func overTCP(s *v1alpha1.PeerCacheClusterSpec) { s.Transport = v1alpha1.TransportTCP }

// reachedAtRails gives each group a rail with the interface of that name.
func reachedAtRails(s *v1alpha1.PeerCacheClusterSpec) {
	s.Rails[0].Interface, s.Rails[2].Interface, s.Discovery.Interface = "peers", "peers", "peers"
}

func embeddedNode(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Mode = v1alpha1.InjectionEmbedded
	preinstalled(s)
}

func pullSecret(s *v1alpha1.PeerCacheClusterSpec) {
	s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
}

func hugeGigabyte(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Memory = &v1alpha1.MemorySpec{Pool: resource.MustParse("8Gi"), HugePages: v1alpha1.HugePages1Gi}
	if s.Injection.Mode == v1alpha1.InjectionSidecar {
		s.Injection.Resources = &v1alpha1.SidecarResources{CPU: resource.MustParse("2"), MemoryOverhead: resource.MustParse("1Gi")}
	}
}

func tls(s *v1alpha1.PeerCacheClusterSpec) {
	s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "kv-peers-tls", PeerName: "kv.peercache.internal"}
}

// sharedRails are two groups, numa0 with two rails and numa1 with one.
func sharedRails(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport = v1alpha1.TransportRDMA
	for _, rail := range []struct {
		name string
		numa int32
	}{{"rail0", 0}, {"rail1", 0}, {"rail2", 1}} {
		s.Rails = append(s.Rails, v1alpha1.Rail{
			Name: rail.name, NUMANode: new(rail.numa), Attachment: v1alpha1.AttachmentSharedDevicePlugin,
			ResourceName: "rdma/" + rail.name, Network: rail.name, Interface: rail.name, Device: "mlx5_" + rail.name[4:],
		})
	}
	s.Rails[1].Interface = ""
	s.Rails[2].Network = "fabric/rail2"
}

func withAddress(s *v1alpha1.PeerCacheClusterSpec) { s.Rails[0].IPs = []string{"10.0.0.1/24"} }

func draRails(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport = v1alpha1.TransportRDMA
	for _, name := range []string{"rail0", "rail1"} {
		s.Rails = append(s.Rails, v1alpha1.Rail{
			Name: name, Attachment: v1alpha1.AttachmentDRA, ResourceClaimTemplate: "nics", Request: name,
		})
	}
}

func hostRail(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport = v1alpha1.TransportRDMA
	s.Rails = []v1alpha1.Rail{{Name: "rail0", Attachment: v1alpha1.AttachmentHostNetwork, Device: "mlx5_0"}}
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
			pod := readPod(t, input)
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

func readPod(t *testing.T, file string) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return pod
}
