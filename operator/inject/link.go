// SPDX-License-Identifier: Apache-2.0

package inject

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// link is how the SGLang containers of a pod find their node: what each of them is given.
type link struct {
	// settings of the extra config.
	settings []setting
	// socket of the node, "" where it runs in the SGLang process.
	socket string
	mounts []corev1.VolumeMount
	// node runs in the SGLang process, if any does.
	node *plan.InPod
	// room is what the pod's name, of podName characters, leaves of the id of such a node for the container's.
	room, podName int
	// delivered says that the client is mounted, and not part of the image.
	delivered bool
}

// addNode gives the pod what its node needs, wherever that runs, or says why it cannot have it.
func addNode(pod *corev1.Pod, facts Facts, group string) (link, string) {
	if facts.Mode != v1alpha1.InjectionSidecar && facts.Mode != v1alpha1.InjectionEmbedded {
		return viaSocket(plan.SocketPath(group)), addVolume(pod, machineSockets(facts))
	}
	fact := facts.Node(group)
	if fact.Problem != "" {
		return link{}, fact.Problem
	}
	if reason := cannotResolve(pod); reason != "" {
		return link{}, reason
	}
	for _, add := range []func(*corev1.Pod, plan.InPod) string{addCertificate, addClaims, addNetworks} {
		if reason := add(pod, fact.Node); reason != "" {
			return link{}, reason
		}
	}
	if facts.Mode == v1alpha1.InjectionEmbedded {
		return embedded(pod, facts, fact.Node), ""
	}
	return viaSocket(plan.SocketPath(group)), addSidecar(pod, facts, fact.Node)
}

func viaSocket(socket string) link {
	return link{
		settings: socketSettings(socket),
		socket:   socket,
		mounts:   []corev1.VolumeMount{{Name: plan.SocketVolume, MountPath: plan.SocketDir, ReadOnly: true}},
	}
}

// cannotResolve says why a node in the pod would not find the others. Theirs is a name of the cluster's DNS.
func cannotResolve(pod *corev1.Pod) string {
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSDefault || pod.Spec.HostNetwork && policy != corev1.DNSClusterFirstWithHostNet && policy != corev1.DNSNone {
		return "the pod resolves names as its machine does, and so would not find the other nodes: write dnsPolicy: " +
			"ClusterFirstWithHostNet with hostNetwork, and ClusterFirst without"
	}
	return ""
}

func addCertificate(pod *corev1.Pod, node plan.InPod) string {
	if node.TLS == nil {
		return ""
	}
	return addVolume(pod, podVolume{*node.TLS, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == node.TLS.Secret.SecretName
	}})
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
				return "the pod has a resource claim of its own named " + quote(claim.Name) + ", as a rail is: rename it"
			}
			taken = true
		}
		if !taken {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
		}
	}
	return ""
}
