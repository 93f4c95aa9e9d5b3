// SPDX-License-Identifier: Apache-2.0

package plan

// What SGLang pods write to get the socket directory of a cluster as a CSI ephemeral volume, and operator/csi reads.
const (
	// CSIDriver serves the directories.
	CSIDriver = "csi.peercache.io"
	// CSINamespace and CSICluster are the volume attributes that name the PeerCacheCluster.
	CSINamespace = "namespace"
	CSICluster   = "cluster"
)
