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
	// nodeUser runs nodes that need no privilege. Whoever runs as this user and has the machine's socket directory could
	// put another socket in a node's place; so it is a number that images do not use, and SGLang pods get that directory
	// read-only.
	nodeUser = 31998
)

// user runs the group's nodes. RDMA pins memory: Kubernetes gives IPC_LOCK to processes of root only, and what others
// may pin is left to the container runtime's configuration.
func (g Group) user(spec v1alpha1.PeerCacheClusterSpec) int64 {
	if g.rdma(spec) {
		return 0
	}
	return nodeUser
}

// buildPodSecurityContext lets the node's user read Secrets, which are root's.
func buildPodSecurityContext(spec v1alpha1.PeerCacheClusterSpec, group Group) *corev1.PodSecurityContext {
	if group.user(spec) == 0 {
		return nil
	}
	return &corev1.PodSecurityContext{FSGroup: new(group.user(spec))}
}

// buildSocketDirectory gives the directory on the machine to the node's user: the kubelet makes it for root. It does so
// for root, too, which has no right to override permissions, and whose directory another transport may have given away.
// For the pod to be Guaranteed this must have limits as well; they are less than the node's, so they cost nothing.
func buildSocketDirectory(spec v1alpha1.PeerCacheClusterSpec, group Group, image string) corev1.Container {
	user := strconv.FormatInt(group.user(spec), 10)
	little := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}
	security := confined()
	security.RunAsUser = new(int64(0))
	security.Capabilities.Add = []corev1.Capability{"CHOWN"}
	return corev1.Container{
		Name:            SocketDirectoryName,
		Image:           image,
		ImagePullPolicy: spec.ImagePullPolicy,
		Command:         []string{"chown", user + ":" + user, SocketDir},
		Resources:       corev1.ResourceRequirements{Requests: little, Limits: little.DeepCopy()},
		VolumeMounts:    []corev1.VolumeMount{{Name: volumeSocket, MountPath: SocketDir}},
		SecurityContext: security,
	}
}

// confined is a container that may do nothing.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		ReadOnlyRootFilesystem:   new(true),
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// buildSecurityContext drops all that is not needed. On the machine's network without a device plug-in, only a
// privileged container is let at the RDMA device.
func buildSecurityContext(spec v1alpha1.PeerCacheClusterSpec, group Group) *corev1.SecurityContext {
	rdma := group.rdma(spec)
	for _, rail := range group.railsWith(v1alpha1.AttachmentHostNetwork) {
		if rdma && rail.ResourceName == "" {
			return &corev1.SecurityContext{
				RunAsUser: new(group.user(spec)), ReadOnlyRootFilesystem: new(true), Privileged: new(true),
			}
		}
	}
	security := confined()
	security.RunAsUser = new(group.user(spec))
	if rdma {
		security.Capabilities.Add = []corev1.Capability{"IPC_LOCK"}
		return security
	}
	security.RunAsGroup = new(group.user(spec))
	security.RunAsNonRoot = new(true)
	return security
}
