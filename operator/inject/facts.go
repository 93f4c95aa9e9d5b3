// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/plan"
)

// Facts is what injection depends on besides the pod.
type Facts struct {
	// Cluster and Namespace name the PeerCacheCluster.
	Cluster, Namespace string
	// PodNamespace is the namespace of the pod. The pod's own metadata may lack it.
	PodNamespace string
	// Groups are the groups of the cluster, at least one. The first serves pods that name none.
	Groups []string
	// NUMASockets are the sockets of a machine by NUMA node; see plan.NUMASockets. It is "" unless the mode is Node.
	NUMASockets string
	// Mode is where the node of the pod runs.
	Mode v1alpha1.InjectionMode
	// Socket is how the sockets of the machine's nodes reach the pod in mode Node.
	Socket v1alpha1.SocketDelivery
	// Sharing decides whether the pod sees only the sockets of its own namespace.
	Sharing v1alpha1.Sharing
	// DriverMissing is true where the sockets come from a CSI driver that is not installed, or ready on no machine.
	DriverMissing bool
	// Node plans the node that modes Sidecar and Embedded put into a pod of a group. It is nil in mode Node.
	Node func(group string) NodeFacts
	// HostMemory is the host memory of each vLLM container; zero is the default.
	HostMemory resource.Quantity
	// Holdout is the group of the pod where its own annotation names none; "" where the cluster holds none out.
	Holdout string
	// ByPolicy is true where an admission policy connects the pods.
	ByPolicy bool
	// Delivery is how the Python client reaches the engine.
	Delivery v1alpha1.ClientDelivery
	// ClientImage is the image with the Python client.
	ClientImage string
	// Ignored are the fields whose images are not used, because the pod is in another namespace than the cluster.
	Ignored []string
	// ClientPullPolicy is the pull policy of ClientImage.
	ClientPullPolicy corev1.PullPolicy
	// Admission is what the API server compares the pod with.
	Admission Admission
	// PullSecrets are added to the pod. They must be Secrets of the pod's own namespace.
	PullSecrets []corev1.LocalObjectReference
}

// NodeFacts is the node inside the pod, or the problem that prevents it.
type NodeFacts struct {
	Node    plan.InPod
	Problem string
}

// FactsFor reads the facts from a cluster. A cluster without images gets those of the options.
func FactsFor(cluster *v1alpha1.PeerCacheCluster, podNamespace string, options Options) Facts {
	injection := cluster.Spec.Injection
	facts := Facts{
		Cluster:          cluster.Name,
		Namespace:        cluster.Namespace,
		PodNamespace:     podNamespace,
		Mode:             injection.Mode,
		Socket:           injection.Socket,
		Sharing:          cluster.Spec.Sharing,
		HostMemory:       cluster.Spec.Engines.VLLM.HostMemory,
		ByPolicy:         injection.By == v1alpha1.InjectionByPolicy,
		Delivery:         injection.Client.Delivery,
		ClientImage:      injection.Client.Image,
		ClientPullPolicy: injection.Client.ImagePullPolicy,
	}
	if facts.ClientImage == "" {
		facts.ClientImage = options.ClientImage
	}
	if cluster.Namespace != podNamespace {
		facts.useOperatorImages(cluster.Spec, options)
	}
	for _, group := range plan.Groups(cluster.Spec) { // pools may have groups of the same name
		if !slices.Contains(facts.Groups, group.Name) {
			facts.Groups = append(facts.Groups, group.Name)
		}
	}
	if facts.Mode == v1alpha1.InjectionSidecar || facts.Mode == v1alpha1.InjectionEmbedded {
		facts.Node = func(group string) NodeFacts { return nodeFacts(cluster, group, podNamespace, options) }
	}
	if facts.Node == nil {
		facts.NUMASockets = plan.NUMASockets(cluster.Spec)
	}
	// A pod can use Secrets of its own namespace only.
	if cluster.Namespace == podNamespace {
		facts.PullSecrets = cluster.Spec.ImagePullSecrets
	}
	for _, secret := range injection.ImagePullSecrets {
		if !slices.Contains(facts.PullSecrets, secret) {
			facts.PullSecrets = append(slices.Clip(facts.PullSecrets), secret)
		}
	}
	return facts
}

// useOperatorImages replaces the cluster's images in a pod of another namespace. The owner of a cluster may choose what runs
// in the cluster's namespace only.
func (f *Facts) useOperatorImages(spec v1alpha1.PeerCacheClusterSpec, options Options) {
	if f.Delivery != v1alpha1.ClientPreinstalled && f.ClientImage != options.ClientImage {
		f.Ignored = append(f.Ignored, "spec.injection.client.image")
	}
	if f.Mode == v1alpha1.InjectionSidecar && spec.Image != "" && spec.Image != options.Plan.DataplaneImage {
		f.Ignored = append(f.Ignored, "spec.image")
	}
	f.ClientImage, f.ClientPullPolicy = options.ClientImage, corev1.PullIfNotPresent
}

// tagScope is the namespace of the pod where pods of several find each other's pages: a tag stands for weights that cannot be
// identified, and nobody but its namespace knows which. It is "" where pages of namespaces are apart anyway.
func (f Facts) tagScope() string {
	if plan.Isolated(f.Sharing) {
		return ""
	}
	return f.PodNamespace
}

// Note tells the user which images were not used.
func (f Facts) Note() string {
	if len(f.Ignored) == 0 {
		return ""
	}
	return reasons.NoteImages(f.Namespace+"/"+f.Cluster, f.Ignored)
}

func nodeFacts(cluster *v1alpha1.PeerCacheCluster, group, podNamespace string, options Options) NodeFacts {
	node, problem := plan.NodeInPod(cluster, group, podNamespace, options.Plan)
	if problem != nil {
		return NodeFacts{Problem: problem.Message}
	}
	return NodeFacts{Node: *node}
}

// group returns the group of the pod, or the reason why there is none.
func (f Facts) group(pod *corev1.Pod) (group, reason string) {
	group, asked := pod.Annotations[names.AnnotationGroup]
	if !asked && len(f.Groups) > 0 {
		group = f.Groups[0]
	}
	if !slices.Contains(f.Groups, group) {
		return "", reasons.GroupUnknown(f.Namespace+"/"+f.Cluster, f.Groups, group)
	}
	return group, ""
}
