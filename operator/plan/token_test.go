// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestToken checks that a cluster has a token by default, in a Secret that is deleted with the cluster.
func TestToken(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*v1alpha1.PeerCacheClusterSpec)
		kept, mounts string
		says, not    string
	}{
		"by default": {
			func(*v1alpha1.PeerCacheClusterSpec) {}, "demo-token", "demo-token",
			`auth-token-file = "/etc/peercache-token/token"`, "insecure-peers",
		},
		"that is named": {namedToken, "", "kv-peers-token", `auth-token-file = "/etc/peercache-token/token"`, "insecure-peers"},
		"none":          {insecure, "", "", `insecure-peers = "on"`, "auth-token-file"},
		"none, but TLS": {
			func(s *v1alpha1.PeerCacheClusterSpec) {
				insecure(s)
				s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "kv-peers-tls"}
			}, "", "", `tls-key-file = "/etc/peercache-tls/tls.key"`, "insecure-peers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster(test.change)
			desired := mustPlan(t, cluster)
			kept := ""
			if desired.Token != nil {
				kept = desired.Token.Name
				if !metav1.IsControlledBy(desired.Token, cluster) || len(desired.Token.Data)+len(desired.Token.StringData) != 0 {
					t.Errorf("the Secret: %+v", desired.Token)
				}
			}
			if kept != test.kept {
				t.Errorf("the operator keeps Secret %q, want %q", kept, test.kept)
			}
			pod := desired.DaemonSets[0].Spec.Template.Spec
			var mounted []string
			for _, v := range pod.Volumes {
				if v.Secret == nil || v.Name == volumeTLS || v.Name == volumeTenantSecret {
					continue
				}
				mounted = append(mounted, v.Secret.SecretName)
				mount := corev1.VolumeMount{Name: v.Name, MountPath: "/etc/peercache-token", ReadOnly: true}
				if *v.Secret.DefaultMode != 0o440 || len(v.Secret.Items) != 0 || !slices.Contains(pod.Containers[0].VolumeMounts, mount) {
					t.Errorf("volume %+v, mounts %+v", v, pod.Containers[0].VolumeMounts)
				}
			}
			if got := strings.Join(mounted, " "); got != test.mounts {
				t.Errorf("nodes read Secret %q, want %q", got, test.mounts)
			}
			config := desired.Config.Data[configKey]
			if !strings.Contains(config, test.says+"\n") || strings.Contains(config, test.not) {
				t.Errorf("configuration:\n%s", config)
			}
		})
	}
}

// TestIdentityFitsPeercached checks the longest identity that Kubernetes allows, and its characters.
func TestIdentityFitsPeercached(t *testing.T) {
	cluster := testCluster()
	cluster.Namespace, cluster.Name = strings.Repeat("n", 63), strings.Repeat("c", 40)
	if got := Identity(cluster); len(got) > 128 || strings.Trim(got, "nc/") != "" {
		t.Errorf("%q", got)
	}
}

// TestPeersDigest checks that each change after which nodes refuse each other gives another value, and other changes do
// not.
func TestPeersDigest(t *testing.T) {
	digest := func(change func(*v1alpha1.PeerCacheClusterSpec)) string {
		daemonSet := mustPlan(t, testCluster(change)).DaemonSets[0]
		if _, selects := daemonSet.Spec.Selector.MatchLabels[v1alpha1.LabelPeers]; selects {
			t.Error("a selector cannot change")
		}
		return daemonSet.Spec.Template.Labels[v1alpha1.LabelPeers]
	}
	base := digest(func(*v1alpha1.PeerCacheClusterSpec) {})
	if len(base) != 10 {
		t.Errorf("label %q", base)
	}
	seen := map[string]string{base: "nothing"}
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){
		"no token": insecure, "another Secret": namedToken,
		"TLS":       func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "a"} },
		"other TLS": func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "b"} },
		"peer name": func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "a", PeerName: "kv.internal"}
		},
		"port": func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Port++ },
	} {
		got := digest(change)
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[got] = name
	}
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){
		"sharing": shareAll,
		"image":   func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "other" },
		"timing":  func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds++ },
	} {
		if digest(change) != base {
			t.Errorf("%s does not keep nodes from each other", name)
		}
	}
}
