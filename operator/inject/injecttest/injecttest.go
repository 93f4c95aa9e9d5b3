// SPDX-License-Identifier: Apache-2.0

// Package injecttest has the pods and clusters for the tests of inject and inject/policy.
package injecttest

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// ImageVolume makes a cluster deliver the client by an image volume.
func ImageVolume(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Client.Delivery = v1alpha1.ClientImageVolume
}

// ByDriver makes a cluster deliver the sockets by the CSI driver.
func ByDriver(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Socket = v1alpha1.SocketCSI }

// Preinstalled makes a cluster expect the client in the image of SGLang.
func Preinstalled(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.Client.Delivery = v1alpha1.ClientPreinstalled
}

// ShareAll lets all namespaces share pages.
func ShareAll(s *v1alpha1.PeerCacheClusterSpec) { s.Sharing = v1alpha1.SharingCluster }

// NUMARails gives a cluster a rail on each of two NUMA nodes, and so a group for each.
func NUMARails(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport, s.Layout = v1alpha1.TransportRDMA, v1alpha1.LayoutPerNUMA
	for i, name := range []string{"rail0", "rail1"} {
		s.Rails = append(s.Rails, v1alpha1.Rail{
			Name: name, NUMANode: new(int32(i)), Attachment: v1alpha1.AttachmentSharedDevicePlugin,
			SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: v1alpha1.ExtendedResource("rdma/" + name)},
		})
	}
}

// OwnImages gives a cluster images that are not the operator's.
func OwnImages(s *v1alpha1.PeerCacheClusterSpec) {
	s.Image, s.ImagePullPolicy = "author/node:1", corev1.PullNever
	s.Injection.Client.Image, s.Injection.Client.ImagePullPolicy = "author/client:1", corev1.PullAlways
	PullSecret(s)
}

// PullElsewhere gives pods of all namespaces the pull secret "mirror".
func PullElsewhere(s *v1alpha1.PeerCacheClusterSpec) {
	s.Injection.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}}
}

// PullSecret gives a cluster the pull secret "registry".
func PullSecret(s *v1alpha1.PeerCacheClusterSpec) {
	s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
}
