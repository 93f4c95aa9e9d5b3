// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// buildNetworkPolicy allows only members to reach the port for peers of the nodes' pods. It returns nil where there is no
// policy. The other named ports stay open: the kubelet probes them, Prometheus scrapes them, and podTemplate may add ports of
// the user.
//
// A node on the network of its machine has the machine's addresses. No policy can name these, and no policy applies to the
// node.
func buildNetworkPolicy(cluster *v1alpha1.PeerCacheCluster, groups []Group, daemonSets []*appsv1.DaemonSet) []client.Object {
	if cluster.Spec.Security.NetworkPolicy == v1alpha1.NetworkPolicyNone || slices.ContainsFunc(groups, Group.onHostNetwork) {
		return nil
	}
	peers := cluster.Spec.Discovery.Port
	policy := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: objectMeta(cluster, cluster.Name+"-peers"),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: nodesOf(cluster)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: members(cluster), Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, peers)}},
			},
		},
	}
	if open := otherPorts(daemonSets, peers); len(open) > 0 { // a rule without ports would open all ports
		policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: open})
	}
	// The object is unstructured, so that the client does not watch all policies of the Kubernetes cluster.
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		panic(err) // encoding an object of this package cannot fail
	}
	return []client.Object{&unstructured.Unstructured{Object: content}}
}

// members are the cluster's own nodes, and the SGLang pods that have a node inside, by the label that injection gave them:
// an engine beside a node reaches it through the socket alone. Pods of other namespaces can have a node only where nodes have
// no secret.
func members(cluster *v1alpha1.PeerCacheCluster) []networkingv1.NetworkPolicyPeer {
	engines := &metav1.LabelSelector{
		MatchLabels:      map[string]string{v1alpha1.LabelInject: cluster.Name},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha1.LabelGroup, Operator: metav1.LabelSelectorOpExists}},
	}
	list := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: nodesOf(cluster)}}, {PodSelector: engines}}
	if others := cluster.Spec.Injection.NamespaceSelector; others != nil && tokenSecret(cluster) == "" && tenantSecret(cluster) == "" {
		list = append(list, networkingv1.NetworkPolicyPeer{NamespaceSelector: others, PodSelector: engines})
	}
	return list
}

func policyPort(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: new(protocol), Port: new(intstr.FromInt32(port))}
}

// otherPorts are the ports that containers of the pods name, except the port for peers.
func otherPorts(daemonSets []*appsv1.DaemonSet, peers int32) []networkingv1.NetworkPolicyPort {
	var named []corev1.ContainerPort
	for _, daemonSet := range daemonSets {
		pod := daemonSet.Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, port := range container.Ports {
				named = append(named, corev1.ContainerPort{
					Protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP), ContainerPort: port.ContainerPort,
				})
			}
		}
	}
	slices.SortFunc(named, func(a, b corev1.ContainerPort) int {
		return cmp.Or(cmp.Compare(a.ContainerPort, b.ContainerPort), cmp.Compare(a.Protocol, b.Protocol))
	})
	var open []networkingv1.NetworkPolicyPort
	for _, port := range slices.Compact(named) {
		if port.Protocol != corev1.ProtocolTCP || port.ContainerPort != peers {
			open = append(open, policyPort(port.Protocol, port.ContainerPort))
		}
	}
	return open
}
