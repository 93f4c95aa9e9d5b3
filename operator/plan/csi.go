// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/peercache/peercache/api/v1alpha1"

// The CSI ephemeral volume with which SGLang pods get the socket directory of a cluster. operator/csi implements it.
const (
	// CSIDriver is the name of the CSI driver.
	CSIDriver = "csi.peercache.io"
	// CSINamespace and CSICluster are the volume attributes that name the PeerCacheCluster.
	CSINamespace = "namespace"
	CSICluster   = "cluster"
)

// SocketByDriver is true where SGLang pods get their sockets from the CSI driver.
func SocketByDriver(injection v1alpha1.InjectionSpec) bool {
	return injection.Socket == v1alpha1.SocketCSI && injection.Mode != v1alpha1.InjectionSidecar && injection.Mode != v1alpha1.InjectionEmbedded
}
