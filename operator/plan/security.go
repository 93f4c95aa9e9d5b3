// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// SocketDirectoryName is the name of the init container that gives the socket directory to the node.
	SocketDirectoryName = "socket-directory"
	// nodeUser runs nodes that need no privilege. A process of this user that can write to the machine's socket directory could
	// replace the socket of a node. So it is a number that images do not use, and SGLang pods get the directory read-only.
	nodeUser = 31998
)

// user is the user of the group's nodes. RDMA pins memory: Kubernetes gives IPC_LOCK only to processes of root, and the limit of
// other users depends on the configuration of the container runtime.
func (g Group) user(spec v1alpha1.PeerCacheClusterSpec) int64 {
	if g.rdma(spec) {
		return 0
	}
	return nodeUser
}

// owner is the user and its group in the notation of chown.
func (g Group) owner(spec v1alpha1.PeerCacheClusterSpec) string {
	user := strconv.FormatInt(g.user(spec), 10)
	return user + ":" + user
}

// buildPodSecurityContext lets the node's user read Secrets, which belong to root.
func buildPodSecurityContext(spec v1alpha1.PeerCacheClusterSpec, group Group) *corev1.PodSecurityContext {
	if group.user(spec) == 0 {
		return nil
	}
	return &corev1.PodSecurityContext{FSGroup: new(group.user(spec))}
}

// buildSocketDirectory gives the directory on the machine, which the kubelet makes for root, to the node's user. It does so for
// root as well, because an earlier transport may have given it to nodeUser, and root here has no right to override permissions.
func buildSocketDirectory(spec v1alpha1.PeerCacheClusterSpec, group Group, image string) corev1.Container {
	command := []string{"chown", group.owner(spec), SocketDir}
	mount := corev1.VolumeMount{Name: volumeSocket, MountPath: SocketDir}
	if Isolated(spec.Sharing) {
		command = chownTenantsDir(group.owner(spec))
		mount = corev1.VolumeMount{Name: volumeTenants, MountPath: tenantsDir}
	}
	return chownContainer(SocketDirectoryName, image, spec.ImagePullPolicy, command, []corev1.VolumeMount{mount})
}

// chownContainer is an init container that runs as root with no right but to chown. The limits make the pod Guaranteed. They are
// lower than those of the node, so they add nothing.
func chownContainer(name, image string, pull corev1.PullPolicy, command []string, mounts []corev1.VolumeMount) corev1.Container {
	little := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}
	security := restrictedSecurityContext()
	security.RunAsUser = new(int64(0))
	security.Capabilities.Add = []corev1.Capability{"CHOWN"}
	return corev1.Container{
		Name:            name,
		Image:           image,
		ImagePullPolicy: pull,
		Command:         command,
		Resources:       corev1.ResourceRequirements{Requests: little, Limits: little.DeepCopy()},
		VolumeMounts:    mounts,
		SecurityContext: security,
	}
}

// restrictedSecurityContext is the context of a container without any privilege.
func restrictedSecurityContext() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		ReadOnlyRootFilesystem:   new(true),
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// buildSecurityContext drops all privileges that the node does not need. On the host network without a device plug-in, only a
// privileged container can open the RDMA device.
func buildSecurityContext(spec v1alpha1.PeerCacheClusterSpec, group Group) *corev1.SecurityContext {
	rdma := group.rdma(spec)
	for _, rail := range group.railsWith(v1alpha1.AttachmentHostNetwork) {
		if rdma && rail.ResourceName() == "" {
			return &corev1.SecurityContext{
				RunAsUser: new(group.user(spec)), ReadOnlyRootFilesystem: new(true), Privileged: new(true),
			}
		}
	}
	security := restrictedSecurityContext()
	security.RunAsUser = new(group.user(spec))
	if rdma {
		security.Capabilities.Add = []corev1.Capability{"IPC_LOCK"}
		return security
	}
	security.RunAsGroup = new(group.user(spec))
	security.RunAsNonRoot = new(true)
	return security
}
