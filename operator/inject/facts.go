// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// Facts is everything besides the pod that injection depends on.
type Facts struct {
	// Cluster and Namespace name the PeerCacheCluster.
	Cluster, Namespace string
	// Groups of the cluster, at least one. The first serves pods that name none.
	Groups []string
	// ClientImage holds the Python client.
	ClientImage string
	// ClientPullPolicy is that image's pull policy.
	ClientPullPolicy corev1.PullPolicy
	// PullSecrets are added to the pod. They must be Secrets of the pod's own namespace.
	PullSecrets []corev1.LocalObjectReference
}

// FactsFor reads the facts from a cluster. The default image is used where the cluster names none.
func FactsFor(cluster *v1alpha1.PeerCacheCluster, podNamespace, defaultClientImage string) Facts {
	client := cluster.Spec.Injection.Client
	facts := Facts{
		Cluster:          cluster.Name,
		Namespace:        cluster.Namespace,
		ClientImage:      client.Image,
		ClientPullPolicy: client.ImagePullPolicy,
	}
	if facts.ClientImage == "" {
		facts.ClientImage = defaultClientImage
	}
	for _, group := range plan.Groups(cluster.Spec) { // of every pool, and pools share names
		if !slices.Contains(facts.Groups, group.Name) {
			facts.Groups = append(facts.Groups, group.Name)
		}
	}
	// A pod can name Secrets of its own namespace only.
	if cluster.Namespace == podNamespace {
		facts.PullSecrets = cluster.Spec.ImagePullSecrets
	}
	return facts
}

// socket returns the socket of the group that the pod asks for, or why there is none.
func (f Facts) socket(pod *corev1.Pod) (socket, reason string) {
	group, asked := pod.Annotations[AnnotationGroup]
	if !asked && len(f.Groups) > 0 {
		group = f.Groups[0]
	}
	if !slices.Contains(f.Groups, group) {
		return "", "annotation " + AnnotationGroup + " names " + quote(group) + ", but the groups of PeerCacheCluster " +
			f.Namespace + "/" + f.Cluster + " are " + strings.Join(f.Groups, ", ") + ": name one of these or remove the annotation"
	}
	return plan.SocketPath(group), ""
}
