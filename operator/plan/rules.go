// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

// recording is a recording rule. In expressions, %s stands for the matchers of the cluster and $by for its labels.
type recording struct{ record, expr string }

var recordings = []recording{
	{"peercache:hit_ratio:rate5m", `sum by ($by) (rate(peercache_delivered_pages_total{%s}[5m]))` +
		` / sum by ($by) (rate(peercache_lookup_pages_total{%s}[5m]))`},
	{"peercache:token_hit_ratio:rate5m", `sum by ($by) (rate(peercache_delivered_tokens_total{%s}[5m]))` +
		` / sum by ($by) (rate(peercache_lookup_tokens_total{%s}[5m]))`},
	{"peercache:lookup_pages:rate5m", `sum by ($by) (rate(peercache_lookup_pages_total{%s}[5m]))`},
	{"peercache:read_bytes:rate5m", `sum by ($by, tier) (rate(peercache_read_bytes_total{%s}[5m]))`},
	{"peercache:write_bytes:rate5m", `sum by ($by) (rate(peercache_write_bytes_total{%s}[5m]))`},
	{"peercache:pool_used:ratio", `sum by ($by) (peercache_pool_bytes{%s,state="used"})` +
		` / sum by ($by) (peercache_pool_capacity_bytes{%s})`},
	{"peercache:op_latency_seconds:p99_5m",
		`histogram_quantile(0.99, sum by ($by, op, le) (rate(peercache_op_latency_seconds_bucket{%s}[5m])))`},
}

// alert is an alerting rule. Its page in docs/runbooks says what to do.
type alert struct {
	name, severity, hold, expr, summary, description string
}

var alerts = []alert{
	{"PeerCacheNodeDown", "warning", "5m", `up{%s} == 0`,
		"A PeerCache member cannot be scraped",
		"Member {{ $labels.pod }} on node {{ $labels.node }} has not answered Prometheus for five minutes. Its pages are misses."},
	{"PeerCacheNodeNotReady", "warning", "5m", `peercache_ready{%s} == 0`,
		"A PeerCache member has not joined its cluster",
		"Member {{ $labels.pod }} on node {{ $labels.node }} runs but serves no engine."},
	{"PeerCacheMembersDisagree", "warning", "5m",
		`max by ($by) (peercache_members{%s}) - min by ($by) (peercache_members{%s}) > 0`,
		"Members of PeerCache see different member lists",
		"Some members of {{ $labels.namespace }}/{{ $labels.peercache_io_cluster }} see {{ $value }} members fewer than others."},
	{"PeerCacheMemberUnreachable", "warning", "5m", `max by ($by) (peercache_members_unreachable{%s}) > 0`,
		"A PeerCache member does not answer other members",
		"{{ $value }} members of {{ $labels.namespace }}/{{ $labels.peercache_io_cluster }} send heartbeats but give no answers; " +
			"they are in no ring."},
	{"PeerCacheRailDown", "warning", "5m", `peercache_rail_up{%s} == 0`,
		"A rail of a PeerCache member is down",
		"Rail {{ $labels.rail }} of member {{ $labels.pod }} on node {{ $labels.node }} is down; reads use its other rails, or TCP."},
	{"PeerCacheDiskOff", "warning", "5m", `peercache_disk_up{%s} == 0`,
		"A drive of a PeerCache member is off",
		"Drive {{ $labels.path }} of member {{ $labels.pod }} on node {{ $labels.node }} is off; its pages are misses " +
			"until it works again."},
	{"PeerCacheDiskBudgetSpent", "info", "1h", `peercache_disk_budget_left_bytes{%s} < peercache_disk_budget_bytes_a_day{%s} / 96`,
		"A PeerCache member has nearly used up its write budget",
		"Member {{ $labels.pod }} on node {{ $labels.node }} has had almost no write budget left for an hour; it skips most new pages."},
	{"PeerCacheDiskDropsPages", "warning", "15m",
		`sum without (reason) (rate(peercache_disk_dropped_pages_total{%s,reason!~"budget|cleared"}[15m]))` +
			` > rate(peercache_disk_written_pages_total{%s}[15m])`,
		"The drives of a PeerCache member do not keep up",
		"Member {{ $labels.pod }} on node {{ $labels.node }} drops {{ $value | humanize }} pages a second on their way to " +
			"disk, more than it writes."},
	{"PeerCacheDiskWears", "info", "1h",
		`increase(peercache_disk_written_bytes_total{%s}[1d]) / (peercache_disk_capacity_bytes{%s} > 0) > 1` +
			` unless on ($by, pod) peercache_disk_budget_bytes_a_day{%s} > 0`,
		"A drive of PeerCache is written more than once a day, without a budget",
		"Member {{ $labels.pod }} on node {{ $labels.node }} has written its part of drive {{ $labels.path }} " +
			"{{ $value | humanize }} times within a day."},
	{"PeerCacheNUMAMisplaced", "info", "30m",
		`peercache_numa_cpus{%s} == 0 and peercache_numa_node{%s} >= 0` +
			` or sum without (place) (peercache_numa_pool_sampled_pages{%s,place="elsewhere"}) > 0`,
		"A PeerCache member runs far from its rails",
		"Threads or memory of member {{ $labels.pod }} on node {{ $labels.node }} are not on the NUMA node of its rails; every read " +
			"crosses the machine."},
	{"PeerCacheChecksumMismatch", "warning", "0m", `increase(peercache_read_misses_total{%s,reason="checksum"}[15m]) > 0`,
		"PeerCache detected corrupt pages",
		"Member {{ $labels.pod }} on node {{ $labels.node }} dropped {{ $value }} pages whose checksum was wrong: memory or a network " +
			"card corrupts data. No engine got them."},
	{"PeerCacheReadFaults", "warning", "10m",
		`sum by ($by) (rate(peercache_read_misses_total{%s,reason!~"absent|bypass|slower"}[5m]))` +
			` / sum by ($by) (rate(peercache_read_requests_total{%s}[5m])) > 0.01`,
		"PeerCache reads miss pages that may exist",
		"{{ $value | humanizePercentage }} of the pages asked for in {{ $labels.namespace }}/{{ $labels.peercache_io_cluster }} " +
			"are missed although they may exist."},
	{"PeerCacheWritesRefused", "warning", "10m",
		`sum by ($by) (rate(peercache_write_refused_total{%s,reason!="bypass"}[5m]))` +
			` / sum by ($by) (rate(peercache_write_requests_total{%s}[5m])) > 0.01`,
		"PeerCache does not store pages",
		"{{ $value | humanizePercentage }} of the pages to store in {{ $labels.namespace }}/{{ $labels.peercache_io_cluster }} " +
			"are refused."},
	{"PeerCacheBypassed", "info", "1h", `peercache_bypassed{%s} == 1`,
		"Engine pods have gone without PeerCache for an hour",
		"The cache is bypassed on member {{ $labels.pod }} on node {{ $labels.node }}."},
	{"PeerCacheSlowerThanCompute", "info", "15m",
		`sum by ($by, pod, node) (rate(peercache_slower_pages_total{%s}[15m]))` +
			` / (sum by ($by, pod, node) (rate(peercache_slower_pages_total{%s}[15m])) + ` +
			`sum by ($by, pod, node) (rate(peercache_exists_pages_found_total{%s}[15m]))) > 0.1`,
		"Engines compute pages faster than PeerCache brings them",
		"{{ $value | humanizePercentage }} of the pages that member {{ $labels.pod }} on node {{ $labels.node }} found for its " +
			"engines are skipped, because a slow network or drive would take longer than computing them."},
	{"PeerCacheHitRatioFell", "warning", "30m",
		`peercache:hit_ratio:rate5m{%s} < 0.5 * (peercache:hit_ratio:rate5m{%s} offset 1d)` +
			` and peercache:lookup_pages:rate5m{%s} > 1`,
		"The hit ratio of PeerCache is less than half of yesterday's",
		"Engines get {{ $value | humanizePercentage }} of the pages that they look up in {{ $labels.namespace }}/" +
			"{{ $labels.peercache_io_cluster }}."},
	// Between two evaluations the backlog may be 0 for a moment.
	{"PeerCacheRepairBacklog", "warning", "30m", `min_over_time(peercache_repair_backlog_pages{%s}[5m]) > 0`,
		"Records of PeerCache pages are not at their home shards",
		"Member {{ $labels.pod }} on node {{ $labels.node }} has had pages to repair for half an hour; other members may miss them."},
	{"PeerCacheDirectoryNearlyFull", "warning", "10m",
		`peercache_directory_records{%s} / peercache_directory_records_limit{%s} > 0.9`,
		"The directory of a PeerCache member is nearly full",
		"Member {{ $labels.pod }} on node {{ $labels.node }} holds {{ $value | humanizePercentage }} of the records it may hold."},
	{"PeerCacheCertificateExpires", "warning", "10m",
		`peercache_tls_certificate_expiry_timestamp_seconds{%s} > 0` +
			` and peercache_tls_certificate_expiry_timestamp_seconds{%s} - time() < 3 * 86400`,
		"The certificate of a PeerCache member expires within three days",
		"Member {{ $labels.pod }} on node {{ $labels.node }} will be refused by other members when its certificate has expired."},
	{"PeerCachePeersRejected", "info", "15m",
		`rate(peercache_peer_bad_frames_total{%s}[5m]) + rate(peercache_peer_failed_hellos_total{%s}[5m]) > 0`,
		"A process that is not a member connects to a PeerCache member",
		"Member {{ $labels.pod }} on node {{ $labels.node }} refuses connections: a scanner, another cluster's member, or a wrong token."},
}

// alertsOfRDMA are for clusters whose members all have rails: with others TCP is no fault.
var alertsOfRDMA = []alert{
	{"PeerCacheReadsOverTCP", "warning", "15m",
		`sum by ($by, pod, node) (rate(peercache_delivered_pages_total{%s,tier="tcp"}[5m]))` +
			` / sum by ($by, pod, node) (rate(peercache_delivered_pages_total{%s,tier=~"tcp|rdma"}[5m])) > 0.05`,
		"A PeerCache member with rails reads over TCP",
		"{{ $value | humanizePercentage }} of the pages that member {{ $labels.pod }} on node {{ $labels.node }} gets from other members " +
			"come over TCP, though it has rails."},
}

// buildRules returns the recording rules and alerts of one cluster. Pages of alerts are named after them, below the address runbooks.
func buildRules(cluster *v1alpha1.PeerCacheCluster, runbooks string) *monitoringv1.PrometheusRule {
	expr := func(text string) intstr.IntOrString { return intstr.FromString(expression(cluster, text)) }
	records := monitoringv1.RuleGroup{Name: "peercache.records"}
	for _, r := range recordings {
		records.Rules = append(records.Rules, monitoringv1.Rule{Record: r.record, Expr: expr(r.expr)})
	}
	alertGroup := monitoringv1.RuleGroup{Name: "peercache.alerts"}
	wanted := alerts
	if OnlyRDMA(cluster.Spec) {
		wanted = slices.Concat(alerts, alertsOfRDMA)
	}
	for _, a := range wanted {
		alertGroup.Rules = append(alertGroup.Rules, monitoringv1.Rule{
			Alert:  a.name,
			Expr:   expr(a.expr),
			For:    new(monitoringv1.Duration(a.hold)),
			Labels: map[string]string{"severity": a.severity},
			Annotations: map[string]string{
				"summary": a.summary, "description": a.description, "runbook_url": strings.TrimSuffix(runbooks, "/") + "/" + a.name + ".md",
			},
		})
	}
	return &monitoringv1.PrometheusRule{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.PrometheusRuleKind},
		ObjectMeta: monitorMeta(cluster, metricsName(cluster.Name)),
		Spec:       monitoringv1.PrometheusRuleSpec{Groups: []monitoringv1.RuleGroup{records, alertGroup}},
	}
}

// expression replaces the placeholders of an expression.
func expression(cluster *v1alpha1.PeerCacheCluster, text string) string {
	matchers := fmt.Sprintf(`namespace=%q,peercache_io_cluster=%q`, cluster.Namespace, cluster.Name)
	return strings.NewReplacer("%s", matchers, "$by", "namespace, peercache_io_cluster").Replace(text)
}
