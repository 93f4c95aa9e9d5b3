// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Where the cluster isolates namespaces, each namespace is a tenant of the nodes. A node recognises a tenant by the folder below
// HostTenantsDir in which an engine found its socket, and derives its key from a secret. A pod gets only the folder of its own
// namespace.

const (
	// TenantSecretKey is the key of the secret in the Secret.
	TenantSecretKey = "secret"

	// tenantsDir is short, because the path of a socket has at most 107 characters.
	tenantsDir         = "/run/tenants"
	tenantSecretDir    = "/etc/peercache-tenants" //nolint:gosec // it is a folder
	volumeTenants      = "tenants"
	volumeTenantSecret = "tenant-secret"

	// tenantsDirMode gives the nodes access to folders that the kubelet creates for a hostPath. The kubelet creates them for root
	// with the permissions of the parent directory, and the kernel gives them the parent's group.
	tenantsDirMode = "2775"
)

// Isolated is true where pods of one namespace cannot get pages of another. An API server without the field leaves it empty,
// which means isolation.
func Isolated(sharing v1alpha1.Sharing) bool { return sharing != v1alpha1.SharingCluster }

// tenantSecret is the name of the Secret from which nodes derive the keys of tenants, or "" without tenants.
func tenantSecret(cluster *v1alpha1.PeerCacheCluster) string {
	if !Isolated(cluster.Spec.Sharing) {
		return ""
	}
	return cluster.Name + "-tenants"
}

// buildTenantSecret returns that Secret without its content, which is generated once, or nil. It is separate from the token: the
// token is rotated and may be the user's, while a change of this secret loses all pages.
func buildTenantSecret(cluster *v1alpha1.PeerCacheCluster) *corev1.Secret {
	name := tenantSecret(cluster)
	if name == "" {
		return nil
	}
	return opaqueSecret(cluster, name)
}

// GenerateTenantSecret sets the content of the Secret of buildTenantSecret.
func GenerateTenantSecret(secret *corev1.Secret) {
	secret.Data = map[string][]byte{TenantSecretKey: []byte(randomHex())}
}

// CheckTenantSecret returns the problem where nodes cannot use the content of the Secret.
func CheckTenantSecret(secret *corev1.Secret) *Problem {
	if entropyBits(strings.TrimRight(string(secret.Data[TenantSecretKey]), "\r\n")) >= minSecretBits {
		return nil
	}
	return &Problem{Reason: "TenantSecretInvalid", Message: fmt.Sprintf("key %s of Secret %s/%s has less than %d bits of secret, so nodes cannot "+
		"derive the keys of namespaces from it: write the previous secret into it again, or delete the Secret and the nodes' pods, and "+
		"another is drawn; pages stored with the previous one are lost",
		TenantSecretKey, secret.Namespace, secret.Name, minSecretBits)}
}

// tenantSettings are the settings of every node of the cluster. A client of the plain socket counts as the cluster's own
// namespace: only an SGLang pod of that namespace, or the pod of the node, has that socket.
func tenantSettings(cluster *v1alpha1.PeerCacheCluster) []Setting {
	if !Isolated(cluster.Spec.Sharing) {
		return nil
	}
	return []Setting{
		{Name: "tenant", Value: cluster.Namespace},
		{Name: "tenant-secret-file", Value: path.Join(tenantSecretDir, TenantSecretKey)},
	}
}

// socketVolumes are the directories in which a node on a machine listens. With tenants, the plain socket serves only commands in
// the node's own pod.
func socketVolumes(cluster *v1alpha1.PeerCacheCluster) []corev1.Volume {
	onMachine := func(name, path string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: path, Type: new(corev1.HostPathDirectoryOrCreate),
		}}}
	}
	if !Isolated(cluster.Spec.Sharing) {
		return []corev1.Volume{onMachine(volumeSocket, HostSocketDir(cluster.Namespace, cluster.Name))}
	}
	own := corev1.Volume{Name: volumeSocket, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("1Mi")),
	}}}
	return []corev1.Volume{own, onMachine(volumeTenants, HostTenantsDir(cluster.Namespace, cluster.Name))}
}

func socketMounts(sharing v1alpha1.Sharing) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{{Name: volumeSocket, MountPath: SocketDir}}
	if Isolated(sharing) {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeTenants, MountPath: tenantsDir})
	}
	return mounts
}

// hasTenants is true for members that tell namespaces apart.
func hasTenants(members *appsv1.DaemonSet) bool {
	return slices.ContainsFunc(members.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volumeTenants })
}

// chownTenantsDir returns the command that gives a user, in the notation of chown, the directory of the tenants and its folders.
// The kubelet may have created them for pods that started earlier, or another user may own them. Root owns the directory while
// its mode is set, because root has only the right to chown here. The command changes nothing where the owner and mode are
// right: another node of the machine may be running.
func chownTenantsDir(user string) []string {
	const script = `if [ "$(stat -c %u:%g:%a "$2")" != "$1:$3" ]; then chown 0:0 "$2"; chmod "$3" "$2"; fi
find "$2" -maxdepth 1 -type d -exec chown "$1" {} +`
	return []string{"sh", "-ec", script, "sh", user, tenantsDir, tenantsDirMode}
}
