// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// Facts is everything besides the pod that injection depends on.
type Facts struct {
	// Cluster and Namespace name the PeerCacheCluster.
	Cluster, Namespace string
	// PodNamespace is the pod's: its own metadata may leave it out.
	PodNamespace string
	// Groups of the cluster, at least one. The first serves pods that name none.
	Groups []string
	// Mode is where the pod's node runs.
	Mode v1alpha1.InjectionMode
	// Socket is how the sockets of the machine's nodes reach the pod in mode Node.
	Socket v1alpha1.SocketDelivery
	// DriverMissing says that they are to come from a CSI driver that is not installed.
	DriverMissing bool
	// Node plans what modes Sidecar and Embedded put into a pod that asks for a group; nil in mode Node.
	Node func(group string) NodeFacts
	// Delivery is how the Python client reaches SGLang.
	Delivery v1alpha1.ClientDelivery
	// ClientImage holds the Python client.
	ClientImage string
	// ClientPullPolicy is that image's pull policy.
	ClientPullPolicy corev1.PullPolicy
	// PullSecrets are added to the pod. They must be Secrets of the pod's own namespace.
	PullSecrets []corev1.LocalObjectReference
}

// NodeFacts is a node inside the pod, or the problem that keeps it out.
type NodeFacts struct {
	Node    plan.InPod
	Problem string
}

// FactsFor reads the facts from a cluster. The images of the options are used where the cluster names none.
func FactsFor(cluster *v1alpha1.PeerCacheCluster, podNamespace string, options Options) Facts {
	injection := cluster.Spec.Injection
	facts := Facts{
		Cluster:          cluster.Name,
		Namespace:        cluster.Namespace,
		PodNamespace:     podNamespace,
		Mode:             injection.Mode,
		Socket:           injection.Socket,
		Delivery:         injection.Client.Delivery,
		ClientImage:      injection.Client.Image,
		ClientPullPolicy: injection.Client.ImagePullPolicy,
	}
	if facts.ClientImage == "" {
		facts.ClientImage = options.ClientImage
	}
	for _, group := range plan.Groups(cluster.Spec) { // of every pool, and pools share names
		if !slices.Contains(facts.Groups, group.Name) {
			facts.Groups = append(facts.Groups, group.Name)
		}
	}
	if facts.Mode == v1alpha1.InjectionSidecar || facts.Mode == v1alpha1.InjectionEmbedded {
		facts.Node = func(group string) NodeFacts { return nodeFacts(cluster, group, podNamespace, options) }
	}
	// A pod can name Secrets of its own namespace only.
	if cluster.Namespace == podNamespace {
		facts.PullSecrets = cluster.Spec.ImagePullSecrets
	}
	return facts
}

func nodeFacts(cluster *v1alpha1.PeerCacheCluster, group, podNamespace string, options Options) NodeFacts {
	node, problem := plan.NodeInPod(cluster, group, podNamespace, options.Plan)
	if problem != nil {
		return NodeFacts{Problem: problem.Message}
	}
	return NodeFacts{Node: *node}
}

// group returns the group that the pod asks for, or why there is none.
func (f Facts) group(pod *corev1.Pod) (group, reason string) {
	group, asked := pod.Annotations[AnnotationGroup]
	if !asked && len(f.Groups) > 0 {
		group = f.Groups[0]
	}
	if !slices.Contains(f.Groups, group) {
		return "", reasonGroup(f, group)
	}
	return group, ""
}
