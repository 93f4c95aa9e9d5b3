// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The labels and annotations that PeerCache sets or reads.
const (
	// LabelCluster names the PeerCacheCluster of a data-plane object.
	LabelCluster = "peercache.io/cluster"
	// LabelGroup names the group of a data-plane object.
	LabelGroup = "peercache.io/group"
	// LabelPool names the node pool of a data-plane object, where the cluster has node pools.
	LabelPool = "peercache.io/pool"
	// LabelDiscovery marks the data-plane pods behind the discovery Service.
	LabelDiscovery = "peercache.io/discovery"
	// DiscoveryHost is the value of LabelDiscovery.
	DiscoveryHost = "host"
	// LabelPeers is equal on the nodes' pods that accept each other: a digest of identity, token and TLS. It differs
	// between the two halves of a roll that changes one of these.
	LabelPeers = "peercache.io/peers"
	// LabelPodShape is the digest of a node's pod without its images.
	LabelPodShape = "peercache.io/pod-shape"
	// LabelPodImages is the digest of the images that the operator wrote for a node's pod.
	LabelPodImages = "peercache.io/pod-images"
	// LabelRestarting is on a pod whose image was patched until its containers have restarted: their restarts before, and the
	// time of the patch.
	LabelRestarting = "peercache.io/restarting"
	// LabelPoolFile tells the pods apart that remove the file of a pool: a digest of where it is.
	LabelPoolFile = "peercache.io/pool-file"
	// LabelDrain, set to DrainNow on a Kubernetes node, keeps the nodes of all clusters off it, and asks those that
	// run there to leave.
	LabelDrain = "peercache.io/drain"
	// DrainNow is the value of LabelDrain that counts.
	DrainNow = "true"
	// LabelBypass, set to BypassOn on a Kubernetes node, takes the caches of all clusters out of the way of SGLang pods
	// there. On a member's pod, the member does so; the operator writes it there.
	LabelBypass = "peercache.io/bypass" //nolint:gosec // a name
	// BypassOn is the value of LabelBypass that counts.
	BypassOn = "on"
	// LabelInject asks for an SGLang pod to be connected to the PeerCacheCluster that it names.
	LabelInject = "peercache.io/inject"
	// AnnotationClusterNamespace names the namespace of that PeerCacheCluster where it is not the pod's own.
	AnnotationClusterNamespace = "peercache.io/cluster-namespace"
	// AnnotationRotateToken, on a PeerCacheCluster, asks for a new token, once for each value that it is given.
	AnnotationRotateToken = "peercache.io/rotate-token" //nolint:gosec // a name
	// AnnotationConfirmLoss, on a PeerCacheCluster, names what the spec has no place for any more and whose pages may be lost,
	// separated by commas: a group by its name, a folder of spec.disk.hostPath as GROUP:FOLDER, another sharing as sharing=VALUE.
	AnnotationConfirmLoss = "peercache.io/confirm-loss"
	// AnnotationConfigHash makes pods restart when their configuration changes.
	AnnotationConfigHash = "peercache.io/config-hash"
	// AnnotationAppliedHash is the digest of an object as the operator last applied it.
	AnnotationAppliedHash = "peercache.io/applied-hash"
)
