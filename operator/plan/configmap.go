// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// configKey is the file name of the nodes' configuration.
const configKey = "peercached.toml"

func buildConfigMap(cluster *v1alpha1.PeerCacheCluster) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(cluster, configMapName(cluster.Name)),
		Data:       map[string]string{configKey: renderConfig(cluster)},
	}
}

// configHash goes into the pods' annotations: a changed configuration is a changed pod template, so
// the DaemonSet controller restarts the nodes one by one.
func configHash(config *corev1.ConfigMap) string {
	sum := sha256.Sum256([]byte(config.Data[configKey]))
	return hex.EncodeToString(sum[:8])
}
