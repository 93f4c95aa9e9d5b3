// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const testImage = "ghcr.io/peercache/peercache/dataplane:test"

// testCluster returns the smallest cluster with the defaults of the API server, after the changes.
func testCluster(changes ...func(*v1alpha1.PeerCacheClusterSpec)) *v1alpha1.PeerCacheCluster {
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: "demo", UID: "uid-1"},
		Spec: v1alpha1.PeerCacheClusterSpec{
			ImagePullPolicy: "IfNotPresent",
			Transport:       v1alpha1.TransportTCP,
			Layout:          v1alpha1.LayoutPerNUMA,
			Memory:          v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi"), HugePages: v1alpha1.HugePagesNone},
			Resources: v1alpha1.ResourcesSpec{
				CPU: resource.MustParse("1"), MemoryOverhead: resource.MustParse("512Mi"),
			},
			Discovery:  v1alpha1.DiscoverySpec{Replicas: 3, Port: 31998},
			Monitoring: v1alpha1.MonitoringSpec{Port: 31997},
			Timing: v1alpha1.TimingSpec{
				LeaseMilliseconds: 1000, PeerTimeoutMilliseconds: 1000,
				HeartbeatMilliseconds: 500, MemberTTLMilliseconds: 3000,
			},
		},
	}
	for _, change := range changes {
		change(&cluster.Spec)
	}
	return cluster
}

var testFacts = Facts{DataplaneImage: testImage, Runbooks: "https://runbooks.example.com/v1"}

func mustPlan(t *testing.T, cluster *v1alpha1.PeerCacheCluster) *Desired {
	t.Helper()
	desired, err := For(cluster, testFacts)
	if err != nil {
		t.Fatalf("For: %v", err)
	}
	return desired
}

func shared(name string, numa int32) v1alpha1.Rail {
	return v1alpha1.Rail{
		Name: name, NUMANode: new(numa), Attachment: v1alpha1.AttachmentSharedDevicePlugin,
		SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: v1alpha1.ExtendedResource("rdma/hca_" + name)},
		Network:            &v1alpha1.RailNetwork{Name: "default/" + name},
	}
}

func onHost(name, group, device string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Group: group, Attachment: v1alpha1.AttachmentHostNetwork, HostNetwork: &v1alpha1.HostDevice{Device: v1alpha1.DeviceName(device)}}
}

func withRails(transport v1alpha1.Transport, rails ...v1alpha1.Rail) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(spec *v1alpha1.PeerCacheClusterSpec) {
		spec.Transport = transport
		spec.Rails = rails
	}
}

func insecure(s *v1alpha1.PeerCacheClusterSpec) { s.Security.Peers = v1alpha1.PeersInsecure }

func namedToken(s *v1alpha1.PeerCacheClusterSpec) {
	s.Security.Token = &v1alpha1.TokenSpec{SecretName: "kv-peers-token"}
}

func shareAll(s *v1alpha1.PeerCacheClusterSpec) { s.Sharing = v1alpha1.SharingCluster }

func noPolicy(s *v1alpha1.PeerCacheClusterSpec) {
	s.Security.NetworkPolicy = v1alpha1.NetworkPolicyNone
}
