// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/status"
)

// exported returns the series of one cluster as name/last label -> value.
func exported(t *testing.T, cluster types.NamespacedName) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels[labelNamespace] == cluster.Namespace && labels[labelCluster] == cluster.Name {
				series[family.GetName()+"/"+labels["condition"]+labels["state"]] = metric.GetGauge().GetValue()
			}
		}
	}
	return series
}

func TestExport(t *testing.T) {
	key := types.NamespacedName{Namespace: "metrics-test", Name: "demo"}
	cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	cluster.Status.DesiredMembers, cluster.Status.ReadyMembers = 3, 2
	cluster.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "MembersStarting"},
		{Type: "ConfigAccepted", Status: metav1.ConditionTrue, Reason: "Accepted"},
		{Type: "RailsHealthy", Status: metav1.ConditionUnknown, Reason: "NotHeard"},
	}
	exportStatus(cluster)
	exportPass(key, errors.New("x"))
	for name, want := range map[string]float64{
		"peercache_operator_cluster_condition/Ready": 0, "peercache_operator_cluster_condition/ConfigAccepted": 1,
		"peercache_operator_cluster_condition/RailsHealthy": -1, "peercache_operator_cluster_members/desired": 3,
		"peercache_operator_cluster_members/ready": 2, "peercache_operator_cluster_members/updated": 0,
		"peercache_operator_cluster_members/drained": 0,
		"peercache_operator_cluster_pass_failed/":    1,
	} {
		if got, there := exported(t, key)[name]; !there || got != want {
			t.Errorf("%s is %v (there: %t), want %v", name, got, there, want)
		}
	}

	cluster.Status.Conditions[0].Reason = status.ReasonPlanOnly
	exportStatus(cluster)
	exportPass(key, nil)
	after := exported(t, key)
	if _, there := after["peercache_operator_cluster_condition/Ready"]; there || after["peercache_operator_cluster_pass_failed/"] != 0 {
		t.Errorf("in mode: Plan there is %v", after)
	}
	deleteMetrics(key)
	if left := exported(t, key); len(left) != 0 {
		t.Errorf("of a cluster that is gone there is left %v", left)
	}
}
