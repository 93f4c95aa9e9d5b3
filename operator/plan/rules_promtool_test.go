// SPDX-License-Identifier: Apache-2.0

//go:build promtool

package plan

import (
	"maps"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/promtool"
)

func renderedRules(t *testing.T) *monitoringv1.PrometheusRule {
	t.Helper()
	return extra[*monitoringv1.PrometheusRule](t, mustPlan(t, testCluster(monitored(v1alpha1.ScrapePodMonitor), onlyRDMA)), "demo-metrics")
}

func TestRulesFire(t *testing.T) {
	clusters := map[string]string{"namespace": "inference", "peercache_io_cluster": "demo"}
	node := map[string]string{"pod": "demo-1", "node": "gpu-1"}
	var cases []promtool.Case
	for _, c := range ruleCases {
		made := promtool.Case{Alert: c.alert, At: c.at, Every: c.every, Description: c.says, Labels: maps.Clone(clusters)}
		for _, series := range c.series {
			made.Series = append(made.Series, promtool.Series{
				Name:   promtool.Fill(series[0], map[string]map[string]string{"@": clusters, "node": node}),
				Values: series[1],
			})
		}
		maps.Copy(made.Labels, c.labels)
		if c.onNode {
			maps.Copy(made.Labels, node)
		}
		cases = append(cases, made)
	}
	promtool.Test(t, renderedRules(t).Spec, cases)
}

func TestRulesOfBareMetalLoad(t *testing.T) {
	promtool.Load(t, "../../config/bare-metal/prometheus.yml")
}

func TestDashboardsParse(t *testing.T) {
	var expressions []string
	for _, q := range boardQueries(t) {
		expressions = append(expressions, q.expr)
	}
	if len(expressions) < 60 {
		t.Fatalf("only %d expressions were found", len(expressions))
	}
	promtool.Parse(t, expressions)
}
