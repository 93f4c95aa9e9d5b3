// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// buildServiceAccount gives the nodes an identity without a token: they never talk to the API server.
func buildServiceAccount(cluster *v1alpha1.PeerCacheCluster) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   objectMeta(cluster, serviceAccountName(cluster.Name)),
		AutomountServiceAccountToken: new(false),
	}
}
