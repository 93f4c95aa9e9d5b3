// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestRenderConfig(t *testing.T) {
	want := `# Written by peercache-operator for PeerCacheCluster inference/demo; changes are undone.
cluster = "inference/demo"
discovery-addr = "demo-discovery.inference.svc:31998"
peer-port = 31998
http-port = 31997
lease-ms = 1000
peer-timeout-ms = 1000
heartbeat-ms = 500
member-ttl-ms = 3000
auth-token-file = "/etc/peercache-token/token"
tenant = "inference"
tenant-secret-file = "/etc/peercache-tenants/secret"
tenants-dir = "/run/tenants"
`
	if got := renderConfig(testCluster()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRenderConfigWithTLS(t *testing.T) {
	tls := &v1alpha1.TLSSpec{SecretName: "kv-peers-tls"}
	withTLS := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Security.TLS = tls
		shareAll(s)
	}
	files := `tls-cert-file = "/etc/peercache-tls/tls.crt"
tls-key-file = "/etc/peercache-tls/tls.key"
tls-ca-file = "/etc/peercache-tls/ca.crt"
`
	if got := renderConfig(testCluster(withTLS)); !strings.Contains(got, files) {
		t.Errorf("got\n%s\nwant in it\n%s", got, files)
	}
	tls.PeerName = "kv.peercache.internal"
	want := files + "tls-peer-name = \"kv.peercache.internal\"\n"
	if got := renderConfig(testCluster(withTLS)); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}

func TestRenderConfigWithDrainBudget(t *testing.T) {
	for budget, want := range map[string]string{"32Gi": "drain-budget = \"32Gi\"\n", "0": "drain-budget = \"0Gi\"\n"} {
		got := renderConfig(testCluster(shareAll, func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Update.DrainBudget = new(resource.MustParse(budget))
		}))
		if !strings.HasSuffix(got, want) {
			t.Errorf("got\n%s\nwant at its end\n%s", got, want)
		}
	}
}

func TestByteSize(t *testing.T) {
	tests := []struct{ pool, want string }{
		{"64Gi", "64Gi"},
		{"1536Mi", "1536Mi"},
		{"1Ti", "1024Gi"},
		{"65M", "64999424"}, // 65 * 10^6 is not a multiple of 4096
	}
	for _, test := range tests {
		if got := byteSize(resource.MustParse(test.pool)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.pool, got, test.want)
		}
	}
}

// TestNodesRestartWhenTheirConfigurationChanges checks that a change of any field that nodes read restarts them, and that no
// other change does.
func TestNodesRestartWhenTheirConfigurationChanges(t *testing.T) {
	template := func(changes ...func(*v1alpha1.PeerCacheClusterSpec)) corev1.PodTemplateSpec {
		return mustPlan(t, testCluster(changes...)).DaemonSets[0].Spec.Template
	}
	base := template()
	if base.Annotations[v1alpha1.AnnotationConfigHash] == "" || !equality.Semantic.DeepEqual(base, template()) {
		t.Fatalf("the hash is empty or the template not stable: %+v", base)
	}
	tests := []struct {
		name    string
		change  func(*v1alpha1.PeerCacheClusterSpec)
		restart bool
	}{
		{"pool", func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.Pool = resource.MustParse("2Gi") }, true},
		{"hugePages", func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HugePages = v1alpha1.HugePages2Mi }, true},
		{"transport", withRails(v1alpha1.TransportRDMA, v1alpha1.Rail{Name: "a"}), true},
		{"drain budget", func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.DrainBudget = new(resource.MustParse("1Gi")) }, true},
		{"discovery port", func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Port = 4000 }, true},
		{"monitoring port", func(s *v1alpha1.PeerCacheClusterSpec) { s.Monitoring.Port = 4001 }, true},
		{"traffic class", func(s *v1alpha1.PeerCacheClusterSpec) { s.RDMA.TrafficClass = new(int32(104)) }, true},
		{"extra config", func(s *v1alpha1.PeerCacheClusterSpec) { s.ExtraConfig = map[string]string{"io-threads": "4"} }, true},
		{"lease", func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds++ }, true},
		{"peer timeout", func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.PeerTimeoutMilliseconds++ }, true},
		{"heartbeat", func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.HeartbeatMilliseconds++ }, true},
		{"member TTL", func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.MemberTTLMilliseconds++ }, true},
		{"token of another Secret", namedToken, true},
		{"no token", insecure, true},
		{"TLS", func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "x"} }, true},
		{"discovery replicas", func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Replicas = 5 }, false},
		{"client image", func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Client.Image = "x" }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if changed := !equality.Semantic.DeepEqual(template(test.change), base); changed != test.restart {
				t.Errorf("pod template changed: %t, want %t", changed, test.restart)
			}
		})
	}
}
