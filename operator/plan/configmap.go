// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// configKey is the name of the nodes' configuration file.
const configKey = "peercached.toml"

func buildConfigMap(cluster *v1alpha1.PeerCacheCluster) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(cluster, configMapName(cluster.Name)),
		Data:       map[string]string{configKey: renderConfig(cluster)},
	}
}

// configHash is an annotation of the pods. A changed configuration changes the pod template, so the DaemonSet controller
// restarts the nodes.
func configHash(config *corev1.ConfigMap) string {
	return digest([]byte(config.Data[configKey]))
}

// digest tells contents apart in a label or an annotation.
func digest(contents []byte) string {
	sum := sha256.Sum256(contents)
	return hex.EncodeToString(sum[:8])
}
