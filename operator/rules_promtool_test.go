// SPDX-License-Identifier: Apache-2.0

//go:build promtool

package main

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/peercache/peercache/internal/promtool"
	"github.com/peercache/peercache/operator/dashboards"
)

func TestOperatorRulesFireWhenTheyShould(t *testing.T) {
	one := func(name, values string) []promtool.Series { return []promtool.Series{{Name: name, Values: values}} }
	const (
		pod     = `pod="peercache-operator-5d-x"`
		cluster = `namespace="peercache-system",cluster_namespace="inference",cluster="demo"`
	)
	of := map[string]string{"cluster_namespace": "inference", "cluster": "demo", "namespace": "inference", "peercache_io_cluster": "demo"}
	with := func(key, value string) map[string]string {
		labels := map[string]string{key: value}
		maps.Copy(labels, of)
		return labels
	}
	inNamespace := map[string]string{"namespace": "peercache-system"}
	webhook := func(code, values string) promtool.Series {
		return promtool.Series{Name: `controller_runtime_webhook_requests_total{namespace="peercache-system",` + pod + `,code="` + code + `"}`,
			Values: values}
	}
	latency := func(le, values string) promtool.Series {
		return promtool.Series{Name: `controller_runtime_webhook_latency_seconds_bucket{namespace="peercache-system",` + pod + `,le="` + le + `"}`,
			Values: values}
	}
	const certificateEnds = "Operator peercache-operator-5d-x serves a certificate that should have been renewed. When it has expired, " +
		"engine pods are admitted unconnected."
	certificate := func(renewedBy string) string {
		return `peercache_operator_webhook_certificate_expiry_timestamp_seconds{` + pod + `,renewed_by="` + renewedBy + `"}`
	}
	promtool.Test(t, operatorRules(t).Spec, []promtool.Case{
		{Alert: "PeerCacheOperatorDown", Series: one(`up{`+pod+`}`, "1 0x20"), At: "15m", Description: "No operator has answered " +
			"Prometheus for ten minutes. The caches continue to serve; changes have no effect, and engine pods that are created now are " +
			"not connected."},
		{Alert: "PeerCacheOperatorDown", Series: one(`up{`+pod+`}`, "1x4 0x5 1x20"), At: "20m"},
		{Alert: "PeerCacheReconcileFails", Series: one(`peercache_operator_cluster_pass_failed{`+cluster+`}`, "1x30"), At: "20m", Labels: of,
			Description: "Reconciling PeerCacheCluster inference/demo has failed for a quarter of an hour."},
		{Alert: "PeerCacheReconcileFails", Series: one(`peercache_operator_cluster_pass_failed{`+cluster+`}`, "1x9 0 1x9"), At: "18m"},
		{Alert: "PeerCacheClusterUnavailable", Series: one(`peercache_operator_cluster_condition{`+cluster+`,condition="Available"}`, "0x60"), At: "10m",
			Labels: with("condition", "Available"), Description: "PeerCacheCluster inference/demo has not been Available for five minutes: engines " +
				"of some group get only misses. Condition Available has the reason."},
		{Alert: "PeerCacheClusterUnavailable", Series: []promtool.Series{
			{Name: `peercache_operator_cluster_condition{` + cluster + `,condition="Available"}`, Values: "0x4 1x60"},
			{Name: `peercache_operator_cluster_condition{` + cluster + `,condition="Ready"}`, Values: "0x60"}}, At: "20m"},
		{Alert: "PeerCacheClusterNotReady", Series: one(`peercache_operator_cluster_condition{`+cluster+`,condition="Ready"}`, "0x60"), At: "40m",
			Labels: with("condition", "Ready"), Description: "PeerCacheCluster inference/demo has not been Ready for half an hour; condition Ready has the reason."},
		{Alert: "PeerCacheClusterNotReady", Series: []promtool.Series{
			{Name: `peercache_operator_cluster_condition{` + cluster + `,condition="Ready"}`, Values: "0x10 1x60"},
			{Name: `peercache_operator_cluster_condition{` + cluster + `,condition="Degraded"}`, Values: "0x60"}}, At: "40m"},
		{Alert: "PeerCacheClusterDegraded", Series: one(`peercache_operator_cluster_condition{`+cluster+`,condition="Degraded"}`, "1x60"), At: "20m",
			Labels: with("condition", "Degraded"), Description: "A member of PeerCacheCluster inference/demo does not recover by itself; " +
				"condition Degraded names its pod."},
		{Alert: "PeerCacheClusterDegraded", Series: []promtool.Series{
			{Name: `peercache_operator_cluster_condition{` + cluster + `,condition="Degraded"}`, Values: "0x60"},
			{Name: `peercache_operator_cluster_condition{` + cluster + `,condition="Ready"}`, Values: "1x60"}}, At: "40m"},
		{Alert: "PeerCacheEnginesNotAttached", Series: one(`peercache_operator_cluster_condition{`+cluster+`,condition="EnginesAttached"}`, "0x60"), At: "20m",
			Labels: with("condition", "EnginesAttached"), Description: "Engine pods of PeerCacheCluster inference/demo have not attached to a member, so " +
				"they run without cache; condition EnginesAttached names them and their nodes."},
		{Alert: "PeerCacheEnginesNotAttached", Series: one(`peercache_operator_cluster_condition{`+cluster+`,condition="EnginesAttached"}`, "-1x20 1x40"), At: "40m"},
		{Alert: "PeerCacheWebhookErrors", Series: []promtool.Series{webhook("200", "0+5x60"), webhook("500", "0+1x60")}, At: "20m", Labels: inNamespace,
			Description: "The webhook in namespace peercache-system has answered with errors for ten minutes; the pods concerned are " +
				"admitted unconnected."},
		{Alert: "PeerCacheWebhookErrors", Series: []promtool.Series{webhook("200", "0+5x60"), webhook("500", "0x60"),
			{Name: `controller_runtime_webhook_requests_total{namespace="x",pod="another-operator-1",code="500"}`, Values: "0+9x60"}}, At: "20m"},
		{Alert: "PeerCacheWebhookSlow", Series: []promtool.Series{latency("1", "0+90x60"), latency("10", "0+100x60"), latency("+Inf", "0+100x60")},
			At: "25m", Labels: inNamespace, Description: "One of a hundred answers of the webhook in namespace peercache-system takes more " +
				"than 9.1s; after five seconds the API server admits a pod unconnected."},
		{Alert: "PeerCacheWebhookSlow", Series: []promtool.Series{latency("1", "0+995x60"), latency("10", "0+1000x60"), latency("+Inf", "0+1000x60")}, At: "25m"},
		{Alert: "PeerCacheWebhookCertificateExpires", Series: one(certificate("operator"), "500000x60"), At: "15m",
			Labels: map[string]string{"pod": "peercache-operator-5d-x", "renewed_by": "operator"}, Description: certificateEnds},
		{Alert: "PeerCacheWebhookCertificateExpires", Series: one(certificate("operator"), "800000x60"), At: "15m"},
		{Alert: "PeerCacheWebhookCertificateExpires", Series: one(certificate("other"), "40000x60"), At: "15m",
			Labels: map[string]string{"pod": "peercache-operator-5d-x", "renewed_by": "other"}, Description: certificateEnds},
		{Alert: "PeerCacheWebhookCertificateExpires", Series: one(certificate("other"), "500000x60"), At: "15m"},
		{Alert: "PeerCachePodsNotConnected", Series: one(`peercache_operator_injections_total{namespace="peercache-system",outcome="skipped",reason="no_cluster"}`, "0x4 2x30"),
			At: "16m", Labels: map[string]string{"namespace": "peercache-system", "reason": "no_cluster"}, Description: "2 pods that asked for a " +
				"PeerCacheCluster were not connected, or in part, for reason no_cluster; their annotation peercache.io/skip-reason or peercache.io/inject-note has the details."},
		{Alert: "PeerCachePodsNotConnected", Series: []promtool.Series{
			{Name: `peercache_operator_injections_total{namespace="peercache-system",outcome="connected",reason="none"}`, Values: "0+5x60"},
			{Name: `peercache_operator_injections_total{namespace="peercache-system",outcome="skipped",reason="unsuitable"}`, Values: "0x4 3x60"}}, At: "40m"},
	})
}

// TestRulesCompareGroups: two groups whose TTFT differs by a known amount, on SGLang and vLLM pods, seen by two operators.
func TestRulesCompareGroups(t *testing.T) {
	var history []promtool.Series
	pod := func(name, group, engine, seconds string) {
		for _, operator := range []string{"a", "b"} {
			history = append(history, promtool.Series{Values: "1x30", Name: `peercache_operator_compared_pod{pod="` + operator + `",namespace="system",` +
				`engine_namespace="serving",engine_pod="` + name + `",cluster_namespace="caches",cluster="kv",group="` + group + `"}`})
		}
		of := `{namespace="serving",pod="` + name + `",model_name="m"`
		metric := engine + ":time_to_first_token_seconds"
		history = append(history,
			promtool.Series{Name: metric + "_sum" + of + "}", Values: "0+" + seconds + "x30"},
			promtool.Series{Name: metric + "_count" + of + "}", Values: "0+60x30"},
			promtool.Series{Name: metric + "_bucket" + of + `,le="1"}`, Values: "0+60x30"},
			promtool.Series{Name: metric + "_bucket" + of + `,le="+Inf"}`, Values: "0+60x30"})
	}
	pod("one", "cache", "sglang", "12") // 0.2 s each
	pod("two", "cache", "vllm", "24")   // 0.4 s
	pod("three", "holdout", "sglang", "54")
	// One whose pod is in no group.
	history = append(history, promtool.Series{Name: `sglang:time_to_first_token_seconds_sum{namespace="serving",pod="four"}`, Values: "0+600x30"})
	of := func(group string) string {
		return `{cluster="kv",cluster_namespace="caches",group="` + group + `",namespace="caches",peercache_io_cluster="kv"}`
	}
	for _, c := range []struct {
		record         string
		cache, holdout float64
	}{{"peercache:ttft_seconds:mean10m", 0.3, 0.9}, {"peercache:ttft_seconds:p90_10m", 0.9, 0.9}, {"peercache:ttft_requests:increase10m", 1200, 600}} {
		promtool.Evaluate(t, operatorRules(t).Spec, history, "20m", "round("+c.record+", 0.0001)", []promtool.Sample{
			{Labels: of("cache"), Value: c.cache}, {Labels: of("holdout"), Value: c.holdout},
		})
	}
}

// TestDashboardsJoinEngines: a panel has each connected pod's own TTFT, and no other pod's.
func TestDashboardsJoinEngines(t *testing.T) {
	var page struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(dashboards.Files()["peercache-engines.json"]), &page); err != nil {
		t.Fatal(err)
	}
	query := ""
	for _, panel := range page.Panels {
		if panel.Title == "Time to first token, the ten slowest pods" {
			query = strings.NewReplacer("$namespace", "caches", "$cluster", "kv").Replace(panel.Targets[0].Expr)
		}
	}
	var history []promtool.Series
	for pod, of := range map[string][2]string{"a": {"sglang", "kv"}, "b": {"vllm", "kv"}, "c": {"vllm", "other"}, "d": {"sglang", ""}} {
		if of[1] != "" {
			history = append(history, promtool.Series{Values: "1x30", Name: `peercache_operator_compared_pod{engine_namespace="serving",` +
				`engine_pod="` + pod + `",cluster_namespace="caches",cluster="` + of[1] + `",group="cache"}`})
		}
		labels := `{namespace="serving",pod="` + pod + `",model_name="m"}`
		history = append(history, promtool.Series{Name: of[0] + ":time_to_first_token_seconds_sum" + labels, Values: "0+12x30"},
			promtool.Series{Name: of[0] + ":time_to_first_token_seconds_count" + labels, Values: "0+60x30"})
	}
	promtool.Evaluate(t, operatorRules(t).Spec, history, "20m", "round("+query+", 0.0001)", []promtool.Sample{
		{Labels: `{namespace="serving",pod="a",group="cache"}`, Value: 0.2}, {Labels: `{namespace="serving",pod="b",group="cache"}`, Value: 0.2},
	})
}

// TestRulesOfRunbooksParse: Prometheus can parse the queries of the runbooks.
func TestRulesOfRunbooksParse(t *testing.T) {
	var queries []string
	for _, sections := range runbookSections(t) {
		for _, heading := range []string{"Check", "Verify"} {
			for _, command := range commandsOf(sections[heading]) {
				if !strings.HasPrefix(command, "kubectl ") && !strings.HasPrefix(command, "[.metadata") {
					queries = append(queries, command)
				}
			}
		}
	}
	if len(queries) < 30 {
		t.Fatalf("only queries %v were found", queries)
	}
	promtool.Parse(t, queries)
}
