// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/status"
)

// The labels that name a cluster. The label "namespace" is taken: scraping sets it to that of the operator's pod.
const (
	labelNamespace = "cluster_namespace"
	labelCluster   = "cluster"
)

var (
	clusterCondition = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "peercache_operator_cluster_condition",
		Help: "Condition of a PeerCacheCluster: 1 True, 0 False, -1 Unknown. Not there for what mode: Plan leaves open.",
	}, []string{labelNamespace, labelCluster, "condition"})
	clusterMembers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "peercache_operator_cluster_members",
		Help: "Members of a PeerCacheCluster: desired, ready, updated to the current spec; and drained, which are not desired.",
	}, []string{labelNamespace, labelCluster, "state"})
	passFailed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "peercache_operator_cluster_pass_failed",
		Help: "1 when the operator's last pass over a PeerCacheCluster ended with an error, which its log has; 0 otherwise.",
	}, []string{labelNamespace, labelCluster})
)

func init() { metrics.Registry.MustRegister(clusterCondition, clusterMembers, passFailed) }

// exportStatus sets the metrics of a cluster's status.
func exportStatus(cluster *v1alpha1.PeerCacheCluster) {
	for _, condition := range cluster.Status.Conditions {
		if condition.Reason == status.ReasonPlanOnly {
			clusterCondition.DeleteLabelValues(cluster.Namespace, cluster.Name, condition.Type)
			continue
		}
		value := -1.0
		switch condition.Status {
		case metav1.ConditionTrue:
			value = 1
		case metav1.ConditionFalse:
			value = 0
		}
		clusterCondition.WithLabelValues(cluster.Namespace, cluster.Name, condition.Type).Set(value)
	}
	for state, members := range map[string]int32{
		"desired": cluster.Status.DesiredMembers, "ready": cluster.Status.ReadyMembers, "updated": cluster.Status.UpdatedMembers,
		"drained": cluster.Status.DrainedMembers,
	} {
		clusterMembers.WithLabelValues(cluster.Namespace, cluster.Name, state).Set(float64(members))
	}
}

func exportPass(cluster types.NamespacedName, err error) {
	failed := 0.0
	if err != nil {
		failed = 1
	}
	passFailed.WithLabelValues(cluster.Namespace, cluster.Name).Set(failed)
}

// deleteMetrics deletes the series of a cluster that is gone.
func deleteMetrics(cluster types.NamespacedName) {
	labels := prometheus.Labels{labelNamespace: cluster.Namespace, labelCluster: cluster.Name}
	clusterCondition.DeletePartialMatch(labels)
	clusterMembers.DeletePartialMatch(labels)
	passFailed.DeletePartialMatch(labels)
}
