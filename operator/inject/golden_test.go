// SPDX-License-Identifier: Apache-2.0

package inject

import (
	goflag "flag"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/injecttest"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/plan"
)

// testdata/<case>.out.yaml has facts, a pod, and what injection makes of it (injecttest.Case). After an intended change, write
// the latter and read the diff:
//
//	go test ./operator/inject -run TestGolden -update && git diff
//
// For a new case, write the facts and the pod, and run the same.
var update = goflag.Bool("update", false, "write the expected pods of TestGolden anew")

func testFacts() Facts {
	return Facts{
		Cluster: "kv", Namespace: "serving", PodNamespace: "serving", Groups: []string{"default"},
		ClientImage: "ghcr.io/peercache/peercache/client:0.1.0", ClientPullPolicy: corev1.PullIfNotPresent,
	}
}

// clusterFacts are the facts that a case may name and that are changes of a cluster.
var clusterFacts = map[string]func(*v1alpha1.PeerCacheClusterSpec){
	"byPolicy":       func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.By = v1alpha1.InjectionByPolicy },
	"byDriver":       injecttest.ByDriver,
	"draRails":       draRails,
	"embeddedNode":   embeddedNode,
	"hostRail":       hostRail,
	"hugeGigabyte":   hugeGigabyte,
	"imageVolume":    injecttest.ImageVolume,
	"insecure":       insecure,
	"namedToken":     namedToken,
	"numaRails":      injecttest.NUMARails,
	"overTCP":        overTCP,
	"ownImages":      injecttest.OwnImages,
	"preinstalled":   injecttest.Preinstalled,
	"pullElsewhere":  injecttest.PullElsewhere,
	"pullSecret":     injecttest.PullSecret,
	"reachedAtRails": reachedAtRails,
	"readsSecret":    readsSecret,
	"shareAll":       injecttest.ShareAll,
	"sharedRails":    sharedRails,
	"sidecar":        sidecar,
	"tls":            withTLS,
	"vllmMemory":     func(s *v1alpha1.PeerCacheClusterSpec) { s.Engines.VLLM.HostMemory = resource.MustParse("8Gi") },
	"withAddress":    withAddress,
}

// otherFacts are the facts that a case may name and that no field of a cluster has, or that a case wants alone.
var otherFacts = map[string]func(*Facts){
	"driverMissing": func(f *Facts) { f.DriverMissing = true },
	"heldOut":       func(f *Facts) { f.Holdout = names.HoldoutTrue },
	"notHeldOut":    func(f *Facts) { f.Holdout = names.HoldoutFalse },
	"mirror":        func(f *Facts) { f.PullSecrets = append(f.PullSecrets, corev1.LocalObjectReference{Name: "mirror"}) },
	"registry":      func(f *Facts) { f.PullSecrets = append(f.PullSecrets, corev1.LocalObjectReference{Name: "registry"}) },
	"twoGroups":     func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
}

// factsNamed returns the facts of a case, whose pod is in namespace serving. So is the cluster, unless it is "elsewhere": then
// it is in namespace caches.
func factsNamed(t *testing.T, words []string) Facts {
	t.Helper()
	namespace := "serving"
	var changes []func(*v1alpha1.PeerCacheClusterSpec)
	var others []func(*Facts)
	for _, word := range words {
		if change, ok := clusterFacts[word]; ok {
			changes = append(changes, change)
		} else if other, ok := otherFacts[word]; ok {
			others = append(others, other)
		} else if word == "elsewhere" {
			namespace = "caches"
		} else {
			t.Fatalf("fact %q is in none of clusterFacts and otherFacts, and is not elsewhere", word)
		}
	}
	facts := testFacts()
	facts.Namespace = namespace
	if len(changes) > 0 {
		facts = factsOfCluster(namespace, changes...)
	}
	for _, other := range others {
		other(&facts)
	}
	return facts
}

var testOptions = Options{
	ClientImage: "ghcr.io/peercache/peercache/client:0.1.0",
	Plan:        plan.Facts{DataplaneImage: "ghcr.io/peercache/peercache/dataplane:0.1.0"},
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

func withTLS(s *v1alpha1.PeerCacheClusterSpec) {
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
	var cases []*injecttest.Case
	named := map[string]bool{}
	for _, file := range injecttest.CaseFiles(t, "testdata") {
		c := injecttest.ReadCase(t, file)
		if c.Injected != nil {
			cases = slices.Insert(cases, 0, c) // -update writes whole cases first, because patches name parts of them
		} else {
			cases = append(cases, c)
		}
		for _, fact := range c.Facts {
			named[fact] = true
		}
	}
	for _, c := range cases {
		t.Run(c.Name(), func(t *testing.T) { checkCase(t, c) })
	}
	for fact := range clusterFacts {
		if !named[fact] {
			t.Errorf("no case names the fact %s of clusterFacts", fact)
		}
	}
	for fact := range otherFacts {
		if !named[fact] {
			t.Errorf("no case names the fact %s of otherFacts", fact)
		}
	}
}

func checkCase(t *testing.T, c *injecttest.Case) {
	facts := factsNamed(t, c.Facts)
	before, pod := c.Pod.DeepCopy(), c.Pod.DeepCopy()
	result := Inject(pod, facts)
	checkResult(t, before, pod, result, facts)

	if *update {
		if err := c.Update(result.Pod); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := yaml.Marshal(result.Pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.After()
	if err != nil {
		t.Fatal(err)
	}
	want, err := yaml.Marshal(after)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the pod differs from what testdata/%s%s says; got:\n%s", c.Name(), injecttest.Suffix, got)
	}
}
