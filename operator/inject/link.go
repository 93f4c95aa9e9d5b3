// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/plan"
)

// link is what each connected container of a pod gets to reach its node.
type link struct {
	engines.Link
	mounts []corev1.VolumeMount
	// numaSockets are the sockets between which each rank chooses by its GPU, or "".
	numaSockets string
	// tagScope keeps a tag that the engine gives apart from the same tag of others, or is "".
	tagScope string
	// heldOut keeps the engine from its node.
	heldOut bool
	// inPod is the node in the SGLang process, or nil.
	inPod *plan.InPod
	// maxContainerName bounds the length of a container name, so that the id of an embedded node fits. podName is the length of
	// the name of the pod.
	maxContainerName, podName int
	// delivered is true where the client is mounted, and false where the image has it.
	delivered bool
}

// addNode gives the pod what its node needs, or returns a reason.
func addNode(pod *corev1.Pod, facts Facts, group string) (link, string) {
	if facts.Mode != v1alpha1.InjectionSidecar && facts.Mode != v1alpha1.InjectionEmbedded {
		l := viaSocket(plan.SocketPath(group), SocketMount(facts))
		if _, asked := pod.Annotations[names.AnnotationGroup]; !asked {
			l.numaSockets = facts.NUMASockets
		}
		return l, addVolume(pod, machineSockets(facts))
	}
	fact := facts.Node(group)
	if fact.Problem != "" {
		return link{}, fact.Problem
	}
	if level := facts.Admission.Restricted(); level != "" && fact.Node.RDMA {
		return link{}, reasons.PinForbidden(facts.PodNamespace, level)
	}
	if reason := dnsReason(pod); reason != "" {
		return link{}, reason
	}
	for _, add := range []func(*corev1.Pod, plan.InPod) string{addSecrets, addClaims, addNetworks} {
		if reason := add(pod, fact.Node); reason != "" {
			return link{}, reason
		}
	}
	labelGroup(pod, fact.Node.Group)
	if facts.Mode == v1alpha1.InjectionEmbedded {
		return embeddedLink(pod, facts, fact.Node), ""
	}
	mount := corev1.VolumeMount{Name: plan.SocketVolume, MountPath: plan.SocketDir, ReadOnly: true}
	return viaSocket(plan.SocketPath(group), mount), addSidecar(pod, facts, fact.Node)
}

func viaSocket(socket string, mount corev1.VolumeMount) link {
	return link{Link: engines.Link{Socket: socket}, mounts: []corev1.VolumeMount{mount}}
}

// dnsReason returns why a node in the pod could not find the others, which have a name in the cluster's DNS.
func dnsReason(pod *corev1.Pod) string {
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSDefault || pod.Spec.HostNetwork && policy != corev1.DNSClusterFirstWithHostNet && policy != corev1.DNSNone {
		return "the pod resolves names as its machine does, and so would not find the other nodes: write dnsPolicy: " +
			"ClusterFirstWithHostNet with hostNetwork, and ClusterFirst without"
	}
	return ""
}

// addSecrets gives the pod the certificate and the token of the node.
func addSecrets(pod *corev1.Pod, node plan.InPod) string {
	for _, secret := range node.Secrets {
		if reason := addVolume(pod, podVolume{secret.Volume, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == secret.Volume.Secret.SecretName
		}}); reason != "" {
			return reason
		}
	}
	return ""
}

// addClaims gives the pod the ResourceClaims of the node's rails.
func addClaims(pod *corev1.Pod, node plan.InPod) string {
	for _, claim := range node.Claims {
		taken := false
		for _, have := range pod.Spec.ResourceClaims {
			if have.Name != claim.Name {
				continue
			}
			if have.ResourceClaimTemplateName == nil || *have.ResourceClaimTemplateName != *claim.ResourceClaimTemplateName {
				return "the pod has a resource claim of its own named " + strconv.Quote(claim.Name) + ", as a rail is: rename it"
			}
			taken = true
		}
		if !taken {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
		}
	}
	return ""
}
