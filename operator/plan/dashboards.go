// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// grafanaLabel is the label by which Grafana's sidecar finds dashboards by default.
	grafanaLabel = "grafana_dashboard"
	// gridWidth is the width of a Grafana dashboard. Panels stand in rows of two.
	gridWidth   = 24
	panelWidth  = gridWidth / 2
	panelHeight = 8
	// stateTimeline is the panel type for values of 1 (up) and 0 (down).
	stateTimeline = "state-timeline"
)

// dashboard is one Grafana dashboard. Its queries have the placeholders %s and $by of recording.
type dashboard struct {
	file, title string
	panels      []panel
}

type panel struct {
	title, kind, unit string
	queries           []query
}

type query struct{ expr, legend string }

var dashboards = []dashboard{
	{"cluster", "cluster", []panel{
		{"Hit ratio", "timeseries", "percentunit", []query{
			{`sum by ($by) (rate(peercache_delivered_pages_total{%s}[5m])) / sum by ($by) (rate(peercache_lookup_pages_total{%s}[5m]))`,
				"all"},
			{`sum by (tier) (rate(peercache_delivered_pages_total{%s}[5m]))` +
				` / ignoring(tier) group_left sum (rate(peercache_lookup_pages_total{%s}[5m]))`, "{{tier}}"}}},
		{"Tokens looked up, found, delivered", "timeseries", "cps", []query{
			{`sum (rate(peercache_lookup_tokens_total{%s}[5m]))`, "looked up"},
			{`sum (rate(peercache_lookup_found_tokens_total{%s}[5m]))`, "found"},
			{`sum by (tier) (rate(peercache_delivered_tokens_total{%s}[5m]))`, "delivered: {{tier}}"}}},
		{"Bytes read by engines", "timeseries", "Bps", []query{{`sum by (tier) (rate(peercache_read_bytes_total{%s}[5m]))`, "{{tier}}"}}},
		{"Bytes stored", "timeseries", "Bps", []query{{`sum (rate(peercache_write_bytes_total{%s}[5m]))`, "written"}}},
		{"Misses by reason", "timeseries", "cps", []query{{`sum by (reason) (rate(peercache_read_misses_total{%s}[5m]))`, "{{reason}}"}}},
		{"Pool", "timeseries", "bytes", []query{{`sum by (state) (peercache_pool_bytes{%s})`, "{{state}}"}}},
		{"Evictions and refused pages", "timeseries", "cps", []query{
			{`sum by (reason) (rate(peercache_evictions_total{%s}[5m]))`, "evicted: {{reason}}"},
			{`sum by (reason) (rate(peercache_write_refused_total{%s}[5m]))`, "refused: {{reason}}"}}},
		{"Members, as nodes see them", "timeseries", "short", []query{
			{`max (peercache_members{%s})`, "most"}, {`min (peercache_members{%s})`, "fewest"},
			{`max (peercache_members_unreachable{%s})`, "unreachable"}}},
		{"Breakers and repair", "timeseries", "short", []query{
			{`sum by (state) (peercache_breakers{%s,state!="closed"})`, "breakers {{state}}"},
			{`sum (peercache_repair_backlog_pages{%s})`, "pages to repair"}}},
	}},
	{"nodes", "machines and groups", []panel{
		{"Bytes sent to other nodes", "heatmap", "Bps", []query{
			{`sum by (node, peercache_io_group) (rate(peercache_served_bytes_total{%s}[5m]))`, "{{node}} {{peercache_io_group}}"}}},
		{"Bytes received from other nodes", "heatmap", "Bps", []query{
			{`sum by (node, peercache_io_group) (rate(peercache_read_bytes_total{%s,tier="remote"}[5m]))`,
				"{{node}} {{peercache_io_group}}"}}},
		{"Bytes sent by group", "timeseries", "Bps", []query{
			{`sum by (peercache_io_group) (rate(peercache_served_bytes_total{%s}[5m]))`, "{{peercache_io_group}}"}}},
		{"Pool used", "timeseries", "percentunit", []query{
			{`sum by (node, peercache_io_group) (peercache_pool_bytes{%s,state="used"})` +
				` / sum by (node, peercache_io_group) (peercache_pool_capacity_bytes{%s})`, "{{node}} {{peercache_io_group}}"}}},
		{"Not ready", "timeseries", "short", []query{{`peercache_ready{%s} == 0`, "{{node}} {{peercache_io_group}}"}}},
		{"Failed exchanges with peers", "timeseries", "cps", []query{
			{`sum by (node) (rate(peercache_breaker_trips_total{%s}[5m]))`, "{{node}}"}}},
	}},
	{"rails", "rails", []panel{
		{"Rails by machine", stateTimeline, "short", []query{
			{`min by (node, peercache_io_group, rail) (peercache_rail_up{%s})`, "{{node}} {{peercache_io_group}} {{rail}}"}}},
		{"What rails wait for", "timeseries", "short", []query{
			{`peercache_rail_waits{%s} == 1`, "{{node}} {{rail}}: {{for}}"}}},
		{"Bytes read by rail", "heatmap", "Bps", []query{
			{`sum by (rail) (rate(peercache_rail_read_bytes_total{%s}[5m]))`, "{{rail}}"}}},
		{"Bytes read by machine and rail", "heatmap", "Bps", []query{
			{`sum by (node, rail) (rate(peercache_rail_read_bytes_total{%s}[5m]))`, "{{node}} {{rail}}"}}},
		{"Rails up", "timeseries", "short", []query{{`sum by (rail) (peercache_rail_up{%s})`, "{{rail}}"}}},
		{"Bytes of a READ, mean", "timeseries", "bytes", []query{
			{`sum by (rail) (rate(peercache_rail_read_bytes_total{%s}[5m])) / sum by (rail) (rate(peercache_rail_reads_total{%s}[5m]))`,
				"{{rail}}"}}},
		{"Queue pairs that failed", "timeseries", "cps", []query{
			{`sum by (node, rail) (rate(peercache_rail_queue_pair_failures_total{%s}[5m])) > 0`, "{{node}} {{rail}}"}}},
		{"Ports that went down, devices that failed, addresses that changed", "timeseries", "short", []query{
			{`sum by (node, rail) (increase(peercache_rail_downs_total{%s}[5m])) > 0`, "{{node}} {{rail}} went down"},
			{`sum by (node, rail) (increase(peercache_rail_device_failures_total{%s}[5m])) > 0`, "{{node}} {{rail}} device failed"},
			{`sum by (node, rail) (increase(peercache_rail_address_changes_total{%s}[5m])) > 0`, "{{node}} {{rail}} address changed"}}},
		{"Links to peers by what became of them", "timeseries", "cps", []query{
			{`sum by (result) (rate(peercache_rdma_link_attempts_total{%s}[5m]))`, "{{result}}"},
			{`sum (rate(peercache_rdma_refused_readers_total{%s}[5m]))`, "readers refused"}}},
		{"Queue pairs", "timeseries", "short", []query{{`sum by (side) (peercache_rdma_queue_pairs{%s})`, "{{side}}"}}},
	}},
	{"disks", "disks", []panel{
		{"Disks by machine", stateTimeline, "short", []query{
			{`min by (node, peercache_io_group, path) (peercache_disk_up{%s})`, "{{node}} {{peercache_io_group}} {{path}}"}}},
		{"Used", "timeseries", "percentunit", []query{
			{`sum by (node, peercache_io_group) (peercache_disk_used_bytes{%s})` +
				` / sum by (node, peercache_io_group) (peercache_disk_capacity_bytes{%s})`, "{{node}} {{peercache_io_group}}"}}},
		{"Bytes read and written", "timeseries", "Bps", []query{
			{`sum (rate(peercache_disk_read_bytes_total{%s}[5m]))`, "read"},
			{`sum (rate(peercache_disk_written_bytes_total{%s}[5m]))`, "written"}}},
		{"Bytes written by machine and disk", "heatmap", "Bps", []query{
			{`sum by (node, peercache_io_group, path) (rate(peercache_disk_written_bytes_total{%s}[5m]))`, "{{node}} {{peercache_io_group}} {{path}}"}}},
		{"Pages written, promoted and dropped", "timeseries", "cps", []query{
			{`sum (rate(peercache_disk_written_pages_total{%s}[5m]))`, "written"},
			{`sum (rate(peercache_disk_promoted_pages_total{%s}[5m]))`, "promoted into memory"},
			{`sum (rate(peercache_disk_fetched_pages_total{%s}[5m]))`, "promoted for other members"},
			{`sum by (reason) (rate(peercache_disk_dropped_pages_total{%s}[5m]))`, "dropped: {{reason}}"}}},
		{"Write budget left, of a day's", "timeseries", "percentunit", []query{
			{`peercache_disk_budget_left_bytes{%s} / (peercache_disk_budget_bytes_a_day{%s} > 0)`, "{{node}} {{peercache_io_group}}"}}},
		{"Pages on disk", "timeseries", "short", []query{{`sum by (node) (peercache_disk_pages{%s})`, "{{node}}"}}},
		{"Pages that wait to be written", "timeseries", "short", []query{{`sum by (node) (peercache_disk_waiting_pages{%s})`, "{{node}}"}}},
		{"Reads that brought no page", "timeseries", "cps", []query{
			{`sum by (outcome) (rate(peercache_disk_reads_total{%s,outcome!="hit"}[5m])) > 0`, "{{outcome}}"}}},
		{"Bytes written for each byte of a page", "timeseries", "short", []query{
			{`sum (rate(peercache_disk_written_bytes_total{%s}[1h])) / sum (rate(peercache_disk_page_bytes_total{%s}[1h]))`, "written"}}},
		{"Errors, and disks that recover", "timeseries", "short", []query{
			{`sum by (node, path) (increase(peercache_disk_errors_total{%s}[5m])) > 0`, "{{node}} {{path}} errors"},
			{`max by (node, path) (peercache_disk_writes_paused{%s}) > 0`, "{{node}} {{path}} writes paused"},
			{`count by (node) (peercache_disk_recovered{%s} == 0)`, "{{node}} recovering"}}},
		{"Reads, writes and syncs of disks, 99th percentile", "timeseries", "s", []query{
			{`histogram_quantile(0.99, sum by (node, path, op, le) (rate(peercache_disk_io_latency_seconds_bucket{%s}[5m])))`,
				"{{node}} {{path}} {{op}}"}}},
		{"Recovery of disks", "timeseries", "percentunit", []query{
			{`peercache_disk_recovery_regions_read{%s} / (peercache_disk_recovery_regions{%s} > 0)`, "{{node}} {{path}}"}}},
	}},
	{"engines", "engines", []panel{
		{"Engines attached", "timeseries", "short", []query{{`sum by (node) (peercache_engines{%s})`, "{{node}}"}}},
		{"Time of a call, 99th percentile", "timeseries", "s", []query{
			{`histogram_quantile(0.99, sum by (op, le) (rate(peercache_op_latency_seconds_bucket{%s}[5m])))`, "{{op}}"}}},
		{"Time of a get by stage, 99th percentile", "timeseries", "s", []query{
			{`histogram_quantile(0.99, sum by (stage, le) (rate(peercache_stage_latency_seconds_bucket{%s,op="get"}[5m])))`, "{{stage}}"}}},
		{"Time of a set by stage, 99th percentile", "timeseries", "s", []query{
			{`histogram_quantile(0.99, sum by (stage, le) (rate(peercache_stage_latency_seconds_bucket{%s,op="set"}[5m])))`, "{{stage}}"}}},
		{"Pages looked up, delivered and stored", "timeseries", "cps", []query{
			{`sum by (op) (rate(peercache_lookup_pages_total{%s}[5m]))`, "looked up: {{op}}"},
			{`sum (rate(peercache_delivered_pages_total{%s}[5m]))`, "delivered"},
			{`sum (rate(peercache_write_requests_total{%s}[5m]))`, "written"}}},
		{"Time to first token with the cache and without, mean", "timeseries", "s", []query{
			{`peercache:ttft_seconds:mean10m{%s}`, "{{group}}"}}},
		{"Time to first token with the cache and without, 90th percentile", "timeseries", "s", []query{
			{`peercache:ttft_seconds:p90_10m{%s}`, "{{group}}"}}},
		{"Requests compared, of ten minutes", "timeseries", "short", []query{{`peercache:ttft_requests:increase10m{%s}`, "{{group}}"}}},
		{"Refused engines and calls that waited", "timeseries", "cps", []query{
			{`sum by (reason) (rate(peercache_engine_refused_total{%s}[5m]))`, "refused: {{reason}}"},
			{`sum (rate(peercache_engine_calls_waited_total{%s}[5m]))`, "waited"}}},
	}},
}

// buildDashboards returns a ConfigMap with one file per dashboard.
func buildDashboards(cluster *v1alpha1.PeerCacheCluster) *corev1.ConfigMap {
	config := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: componentMeta(cluster, cluster.Name+"-dashboards", "dashboards"),
		Data:       map[string]string{},
	}
	config.Labels[grafanaLabel] = "1"
	for _, d := range dashboards {
		name := fmt.Sprintf("peercache-%s-%s-%s.json", cluster.Namespace, cluster.Name, d.file)
		config.Data[name] = renderDashboard(cluster, d)
	}
	return config
}

// renderDashboard writes the JSON model of Grafana.
func renderDashboard(cluster *v1alpha1.PeerCacheCluster, d dashboard) string {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	panels := make([]object, 0, len(d.panels))
	for i, p := range d.panels {
		targets := make([]object, 0, len(p.queries))
		for j, q := range p.queries {
			targets = append(targets, object{
				"refId": string(rune('A' + j)), "datasource": source, "expr": expression(cluster, q.expr), "legendFormat": q.legend,
			})
		}
		panels = append(panels, object{
			"id": i + 1, "title": p.title, "type": p.kind, "datasource": source, "targets": targets,
			"gridPos":     object{"h": panelHeight, "w": panelWidth, "x": i % 2 * panelWidth, "y": i / 2 * panelHeight},
			"fieldConfig": object{"defaults": fieldDefaults(p), "overrides": []object{}},
		})
	}
	sum := sha256.Sum256([]byte(cluster.Namespace + "/" + cluster.Name + "/" + d.file)) // a uid has at most 40 characters
	text, err := json.MarshalIndent(object{
		"uid":           hex.EncodeToString(sum[:10]),
		"title":         fmt.Sprintf("PeerCache %s/%s: %s", cluster.Namespace, cluster.Name, d.title),
		"tags":          []string{"peercache"},
		"schemaVersion": 39,
		"refresh":       "30s",
		"time":          object{"from": "now-1h", "to": "now"},
		"templating":    object{"list": []object{{"name": "datasource", "type": "datasource", "query": "prometheus"}}},
		"panels":        panels,
	}, "", " ")
	if err != nil {
		panic(err) // encoding maps of strings and numbers cannot fail
	}
	return string(text) + "\n"
}

// fieldDefaults are the units and limits of a panel's values.
func fieldDefaults(p panel) map[string]any {
	defaults := map[string]any{"unit": p.unit}
	if p.kind == stateTimeline {
		state := func(text, color string) map[string]any { return map[string]any{"text": text, "color": color} }
		defaults["mappings"] = []map[string]any{
			{"type": "value", "options": map[string]any{"0": state("down", "red"), "1": state("up", "green")}},
		}
	}
	return defaults
}
