// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

// buildDiscoveryService returns the headless Service whose name resolves to every discovery host. It publishes pods that are not
// ready, because a node becomes ready only after it has found the others through the Service.
func buildDiscoveryService(cluster *v1alpha1.PeerCacheCluster) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(cluster, discoveryName(cluster.Name)),
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector: map[string]string{
				v1alpha1.LabelCluster:   cluster.Name,
				v1alpha1.LabelDiscovery: v1alpha1.DiscoveryHost,
			},
			Ports: []corev1.ServicePort{{
				Name:       portPeer,
				Protocol:   corev1.ProtocolTCP,
				Port:       cluster.Spec.Discovery.Port,
				TargetPort: intstr.FromString(portPeer),
			}},
		},
	}
}

// discoveryAddress lacks the domain of the Kubernetes cluster, which the operator does not know.
func discoveryAddress(cluster *v1alpha1.PeerCacheCluster) string {
	return fmt.Sprintf("%s.%s.svc:%d", discoveryName(cluster.Name), cluster.Namespace, cluster.Spec.Discovery.Port)
}
