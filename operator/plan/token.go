// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// TokenKey is the key of the token in a Secret.
	TokenKey = "token"

	tokenDir    = "/etc/peercache-token" //nolint:gosec // it is a folder
	volumeToken = "token"
)

// Identity is the name of a cluster among all clusters of the Kubernetes cluster. It has at most 63 + 1 + 40 characters;
// peercached accepts 128.
func Identity(cluster *v1alpha1.PeerCacheCluster) string {
	return cluster.Namespace + "/" + cluster.Name
}

// tokenSecret is the name of the Secret with the token, or "" where nodes prove none.
func tokenSecret(cluster *v1alpha1.PeerCacheCluster) string {
	security := cluster.Spec.Security
	switch {
	case security.Peers == v1alpha1.PeersInsecure:
		return ""
	case security.Token != nil:
		return security.Token.SecretName
	default:
		return cluster.Name + "-token"
	}
}

// buildToken returns the Secret that the operator keeps, without its content, which is generated once. It returns nil where the
// operator keeps none.
func buildToken(cluster *v1alpha1.PeerCacheCluster) *corev1.Secret {
	name := tokenSecret(cluster)
	if name == "" || cluster.Spec.Security.Token != nil {
		return nil
	}
	return opaqueSecret(cluster, name)
}

func opaqueSecret(cluster *v1alpha1.PeerCacheCluster, name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(cluster, name),
		Type:       corev1.SecretTypeOpaque,
	}
}

// secretMount is a Secret that a node reads. It is mounted as a whole, because the kubelet does not update mounts of single
// files.
type secretMount struct{ volume, secret, directory string }

func secretMounts(cluster *v1alpha1.PeerCacheCluster) []secretMount {
	list := peerSecrets(cluster)
	if tenants := tenantSecret(cluster); tenants != "" {
		list = append(list, secretMount{volumeTenantSecret, tenants, tenantSecretDir})
	}
	return list
}

// peerSecrets are the Secrets with which nodes authenticate each other.
func peerSecrets(cluster *v1alpha1.PeerCacheCluster) (list []secretMount) {
	if token := tokenSecret(cluster); token != "" {
		list = append(list, secretMount{volumeToken, token, tokenDir})
	}
	if tls := cluster.Spec.Security.TLS; tls != nil {
		list = append(list, secretMount{volumeTLS, tls.SecretName, tlsDir})
	}
	return list
}

func (m secretMount) in(volume string, mode int32) MountedSecret {
	return MountedSecret{
		Volume: corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: m.secret, DefaultMode: new(mode)},
		}},
		Mount: corev1.VolumeMount{Name: volume, MountPath: m.directory, ReadOnly: true},
	}
}

// MountedSecret is a Secret with its mount in a node.
type MountedSecret struct {
	Volume corev1.Volume
	Mount  corev1.VolumeMount
}

// peerSettings are the settings on which nodes must agree. Nodes that differ refuse or do not reach each other.
var peerSettings = []string{
	"cluster", "peer-port", "auth-token-file", "tls-cert-file", "tls-peer-name",
}

// peersDigest differs for nodes that refuse each other. It does not cover tenants: nodes with other tenants only find no pages
// at each other.
func peersDigest(cluster *v1alpha1.PeerCacheCluster) string {
	var agreed []string
	for _, s := range settings(cluster) {
		if slices.Contains(peerSettings, s.Name) {
			agreed = append(agreed, s.Name+"="+s.Value)
		}
	}
	for _, m := range peerSecrets(cluster) {
		agreed = append(agreed, m.volume+"="+m.secret)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", agreed))
	return hex.EncodeToString(sum[:5])
}
