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
	// LabelDrain, set to DrainNow on a Kubernetes node, keeps the nodes of all clusters off it, and asks those that
	// run there to leave.
	LabelDrain = "peercache.io/drain"
	// DrainNow is the value of LabelDrain that counts.
	DrainNow = "true"
	// LabelInject asks for an SGLang pod to be connected to the PeerCacheCluster that it names.
	LabelInject = "peercache.io/inject"
	// AnnotationClusterNamespace names the namespace of that PeerCacheCluster where it is not the pod's own.
	AnnotationClusterNamespace = "peercache.io/cluster-namespace"
	// AnnotationConfigHash makes pods restart when their configuration changes.
	AnnotationConfigHash = "peercache.io/config-hash"
	// AnnotationAppliedHash is the digest of an object as the operator last applied it.
	AnnotationAppliedHash = "peercache.io/applied-hash"
)
