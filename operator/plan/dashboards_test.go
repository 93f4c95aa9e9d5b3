// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/dashboards"
)

type boardQuery struct{ file, panel, about, expr string }

// boardQueries returns the queries of all panels.
func boardQueries(t *testing.T) (queries []boardQuery) {
	t.Helper()
	for file, text := range dashboards.Files() {
		var page struct {
			Panels []struct {
				Title, Description string
				Targets            []struct{ Expr string }
			}
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, panel := range page.Panels {
			for _, target := range panel.Targets {
				queries = append(queries, boardQuery{file, panel.Title, panel.Description, target.Expr})
			}
		}
	}
	return queries
}

// TestDashboardsOfClusters: two clusters bring files of the same names and contents, so Grafana shows them once.
func TestDashboardsOfClusters(t *testing.T) {
	cluster := testCluster(monitored(v1alpha1.ScrapePodMonitor))
	config := extra[*corev1.ConfigMap](t, mustPlan(t, cluster), "demo-dashboards")
	if config.Labels["grafana_dashboard"] != "1" || len(config.OwnerReferences) != 1 {
		t.Errorf("Grafana finds it with labels %v, and its owners are %v", config.Labels, config.OwnerReferences)
	}
	cluster.Name, cluster.Namespace = "other", "elsewhere"
	other := extra[*corev1.ConfigMap](t, mustPlan(t, cluster), "other-dashboards")
	if !maps.Equal(config.Data, other.Data) || len(config.Data) != 5 {
		t.Errorf("two clusters have the files %v and %v", slices.Sorted(maps.Keys(config.Data)), slices.Sorted(maps.Keys(other.Data)))
	}
}

// TestDashboardsReadWhatExists: panels read metrics that members or rules make, of the chosen cluster alone.
func TestDashboardsReadWhatExists(t *testing.T) {
	known := metricsOfNodes(t)
	for _, r := range recordings {
		known[r.record] = true
	}
	operators, err := os.ReadFile("../../config/prometheus/operator-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(string(operators), -1) {
		known[record[1]] = true
	}
	// The namespace of a connected pod is its own.
	const connected = `peercache:compared_pod:info{cluster_namespace="$namespace",cluster="$cluster"}`
	text := map[string]string{}
	for _, q := range boardQueries(t) {
		text[q.file] += q.expr + "\n"
		checkExpression(t, q.file+": "+q.panel, strings.ReplaceAll(q.expr, connected, "up{"+dashboards.Matchers+"}"), dashboards.Matchers, known)
	}
	for prefix, file := range map[string]string{"peercache_rail_": "peercache-rails.json", "peercache_disk_": "peercache-disks.json"} {
		for name := range known { // each has a panel, except the position of rails; of a histogram, its buckets
			if strings.HasPrefix(name, prefix) && name != "peercache_rail_numa_node" && !known[name+"_bucket"] &&
				!strings.Contains(text[file], name+"{") {
				t.Errorf("no panel of %s reads %s", file, name)
			}
		}
	}
}

// TestDashboardsShowAlerts: each alert about members is named by a panel that reads a metric of it, and panels name no others.
func TestDashboardsShowAlerts(t *testing.T) {
	metrics := regexp.MustCompile(`\b(?:peercache_[a-z0-9_]+|peercache:[a-z0-9_:]+|up)\{`)
	exprs := map[string]string{}
	for _, a := range slices.Concat(alerts, alertsOfRDMA) {
		exprs[a.name] = a.expr
	}
	shown := map[string]bool{}
	for _, q := range boardQueries(t) {
		for _, name := range regexp.MustCompile(`\bPeerCache[A-Z]\w+`).FindAllString(q.about, -1) {
			expr, exists := exprs[name]
			if !exists {
				t.Errorf("panel %q of %s names %s, which is no alert of members", q.panel, q.file, name)
			}
			reads := metrics.FindAllString(q.expr, -1)
			if slices.ContainsFunc(metrics.FindAllString(expr, -1), func(metric string) bool { return slices.Contains(reads, metric) }) {
				shown[name] = true
			}
		}
	}
	for name := range exprs {
		// The ratio of a cluster is recorded; the panel has the same ratio by tier, too.
		if !shown[name] && name != "PeerCacheHitRatioFell" {
			t.Errorf("no panel that names %s reads its metric", name)
		}
	}
}
