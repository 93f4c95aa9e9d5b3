// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/peercache/peercache/api/v1alpha1"

// What SGLang pods write to get the socket directory of a cluster as a CSI ephemeral volume, and operator/csi reads.
const (
	// CSIDriver serves the directories.
	CSIDriver = "csi.peercache.io"
	// CSINamespace and CSICluster are the volume attributes that name the PeerCacheCluster.
	CSINamespace = "namespace"
	CSICluster   = "cluster"
)

// SocketByDriver says whether SGLang pods get their sockets from the driver.
func SocketByDriver(injection v1alpha1.InjectionSpec) bool {
	return injection.Socket == v1alpha1.SocketCSI && injection.Mode != v1alpha1.InjectionSidecar && injection.Mode != v1alpha1.InjectionEmbedded
}
