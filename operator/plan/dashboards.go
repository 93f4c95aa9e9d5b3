// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/dashboards"
)

// grafanaLabel is the label by which Grafana's sidecar finds dashboards by default.
const grafanaLabel = "grafana_dashboard"

// buildDashboards returns a ConfigMap with one file per dashboard. The files are the same for all clusters: Grafana's sidecar
// writes files of one name to one place, so Grafana shows one set, however many clusters ask for it.
func buildDashboards(cluster *v1alpha1.PeerCacheCluster) *corev1.ConfigMap {
	config := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: componentMeta(cluster, cluster.Name+"-dashboards", "dashboards"),
		Data:       dashboards.Files(),
	}
	config.Labels[grafanaLabel] = "1"
	return config
}
