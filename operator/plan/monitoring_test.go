// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/peercache/peercache/api/v1alpha1"
)

func monitored(scrape v1alpha1.ScrapeKind) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Monitoring = v1alpha1.MonitoringSpec{
			Port: 31997, Scrape: scrape, Interval: "15s", Rules: v1alpha1.RulesPrometheusRule,
			Dashboards: v1alpha1.DashboardsConfigMap, Labels: map[string]string{"release": "prometheus", v1alpha1.LabelCluster: "other"},
		}
	}
}

// onlyRDMA gives a cluster all alerts.
func onlyRDMA(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport, s.Rails = v1alpha1.TransportRDMA, []v1alpha1.Rail{shared("a", 0)}
}

func TestPodMonitor(t *testing.T) {
	desired := mustPlan(t, testCluster(monitored(v1alpha1.ScrapePodMonitor)))
	monitor := extra[*monitoringv1.PodMonitor](t, desired, "demo-metrics")
	if monitor.Labels["release"] != "prometheus" || monitor.Labels[v1alpha1.LabelCluster] != "demo" {
		t.Errorf("labels are %v", monitor.Labels)
	}
	template := desired.DaemonSets[0].Spec.Template
	if !labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(template.Labels)) {
		t.Errorf("%v selects no node", monitor.Spec.Selector)
	}
	endpoint := monitor.Spec.PodMetricsEndpoints[0]
	if *endpoint.Port != template.Spec.Containers[0].Ports[1].Name || endpoint.Interval != "15s" {
		t.Errorf("the endpoint is %+v", endpoint)
	}
	for _, object := range desired.Extras {
		if object.GetObjectKind().GroupVersionKind().Kind == "Service" {
			t.Error("a PodMonitor needs no Service")
		}
	}
}

func TestServiceMonitor(t *testing.T) {
	desired := mustPlan(t, testCluster(monitored(v1alpha1.ScrapeServiceMonitor)))
	monitor := extra[*monitoringv1.ServiceMonitor](t, desired, "demo-metrics")
	service := extra[*corev1.Service](t, desired, "demo-metrics")
	selects := func(selector, set map[string]string) bool {
		return labels.SelectorFromSet(selector).Matches(labels.Set(set))
	}
	if !selects(monitor.Spec.Selector.MatchLabels, service.Labels) || selects(monitor.Spec.Selector.MatchLabels, desired.Discovery.Labels) {
		t.Errorf("%v selects another Service than its own", monitor.Spec.Selector.MatchLabels)
	}
	if !selects(service.Spec.Selector, desired.DaemonSets[0].Spec.Template.Labels) || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Errorf("the Service %+v leads to no node", service.Spec)
	}
	if extras := mustPlan(t, testCluster(noPolicy)).Extras; len(extras) != 0 {
		t.Errorf("nothing was asked for, and there is %v", extras)
	}
}

// TestSidecarMonitor checks that the monitor finds the sidecars of all namespaces by what injection writes, and gives their
// metrics the labels of other nodes.
func TestSidecarMonitor(t *testing.T) {
	for _, scrape := range []v1alpha1.ScrapeKind{v1alpha1.ScrapePodMonitor, v1alpha1.ScrapeServiceMonitor, v1alpha1.ScrapeNone} {
		cluster := testCluster(monitored(scrape), func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionSidecar })
		desired := mustPlan(t, cluster)
		if scrape == v1alpha1.ScrapeNone {
			for _, object := range desired.Extras {
				if object.GetName() == "demo-sidecars" {
					t.Error("nobody asked for a monitor")
				}
			}
			continue
		}
		monitor := extra[*monitoringv1.PodMonitor](t, desired, "demo-sidecars")
		if monitor.Labels["release"] != "prometheus" || monitor.Labels[v1alpha1.LabelCluster] != "demo" {
			t.Errorf("labels are %v", monitor.Labels)
		}
		if !monitor.Spec.NamespaceSelector.Any || !labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(
			labels.Set{v1alpha1.LabelInject: "demo"}) {
			t.Errorf("it selects %+v in %+v", monitor.Spec.Selector, monitor.Spec.NamespaceSelector)
		}
		endpoint := monitor.Spec.PodMetricsEndpoints[0]
		sidecar := mustNodeInPod(t, cluster, "default", "inference").Sidecar
		if *endpoint.Port != sidecar.Ports[1].Name || sidecar.Ports[1].ContainerPort != 31997 || endpoint.Interval != "15s" {
			t.Errorf("the endpoint is %+v", endpoint)
		}
		for _, test := range []struct {
			name  string
			found map[string]string
			want  map[string]string // nil for a dropped target
		}{
			{"beside the cluster", map[string]string{"__meta_kubernetes_namespace": "inference"}, map[string]string{
				"namespace": "inference", "pod_namespace": "inference", "peercache_io_cluster": "demo", "node": "m"}},
			{"elsewhere", map[string]string{"__meta_kubernetes_namespace": "serving",
				"__meta_kubernetes_pod_annotation_peercache_io_cluster_namespace": "inference"}, map[string]string{
				"namespace": "inference", "pod_namespace": "serving", "peercache_io_cluster": "demo", "node": "m"}},
			{"of a cluster of that name elsewhere", map[string]string{"__meta_kubernetes_namespace": "inference",
				"__meta_kubernetes_pod_annotation_peercache_io_cluster_namespace": "other"}, nil},
			{"of a cluster of that name in its own namespace", map[string]string{"__meta_kubernetes_namespace": "serving"}, nil},
		} {
			test.found["__meta_kubernetes_pod_node_name"] = "m"
			test.found["__meta_kubernetes_pod_label_peercache_io_inject"] = "demo"
			test.found["namespace"] = test.found["__meta_kubernetes_namespace"] // as the Prometheus Operator sets it
			got := relabel(t, test.found, endpoint.RelabelConfigs)
			maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "__") })
			if !maps.Equal(got, test.want) {
				t.Errorf("%s, with %s: labels are %v, want %v", test.name, scrape, got, test.want)
			}
		}
	}
	for _, object := range mustPlan(t, testCluster(monitored(v1alpha1.ScrapePodMonitor))).Extras {
		if object.GetName() == "demo-sidecars" {
			t.Error("there are no sidecars in mode Node")
		}
	}
}

// relabel applies relabel configurations as Prometheus does, for the actions that the monitors use: replace and keep. It
// returns nil for a dropped target.
func relabel(t *testing.T, target map[string]string, configs []monitoringv1.RelabelConfig) map[string]string {
	t.Helper()
	result := maps.Clone(target)
	for _, c := range configs {
		values := make([]string, len(c.SourceLabels))
		for i, name := range c.SourceLabels {
			values[i] = result[string(name)]
		}
		expression, replacement := "(.*)", "$1"
		if c.Regex != "" {
			expression = c.Regex
		}
		if c.Replacement != nil {
			replacement = *c.Replacement
		}
		anchored := regexp.MustCompile("^(?:" + expression + ")$")
		source := strings.Join(values, ";")
		match := anchored.FindStringSubmatchIndex(source)
		switch {
		case c.Action == "keep" && match == nil:
			return nil
		case c.Action == "" && match != nil:
			result[c.TargetLabel] = string(anchored.ExpandString(nil, replacement, source, match))
		case c.Action != "" && c.Action != "keep":
			t.Fatalf("action %q is not understood", c.Action)
		}
	}
	return result
}

// metricsOfNodes are the metrics in docs/metrics.md, which is generated from the data plane. A histogram stands for its
// buckets.
func metricsOfNodes(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"up": true}
	for _, row := range regexp.MustCompile("(?m)^\\| `(peercache_[a-z0-9_]+)` \\| (counter|gauge|histogram) \\|").FindAllStringSubmatch(string(text), -1) {
		names[row[1]] = true
		if row[2] == "histogram" {
			names[row[1]+"_bucket"] = true
		}
	}
	if len(names) < 60 {
		t.Fatalf("docs/metrics.md is not understood: %v", names)
	}
	return names
}

// checkExpression reports metrics that nobody exports, and selectors without all matchers of the cluster.
func checkExpression(t *testing.T, where, expr, matchers string, known map[string]bool) {
	t.Helper()
	for _, name := range regexp.MustCompile(`\b(peercache_[a-z0-9_]+|peercache:[a-z0-9_:]+|up)\{([^}]*)\}`).FindAllStringSubmatch(expr, -1) {
		if !known[name[1]] {
			t.Errorf("%s reads %s, which nobody exports", where, name[1])
		}
		if !strings.Contains(name[2], matchers) {
			t.Errorf("%s reads %s of all clusters", where, name[1])
		}
	}
	for _, name := range regexp.MustCompile(`\b(peercache_[a-z0-9_]+|peercache:[a-z0-9_:]+)\b`).FindAllString(expr, -1) {
		if name != "peercache_io_cluster" && name != "peercache_io_group" && !strings.Contains(expr, name+"{") {
			t.Errorf("%s reads %s without saying of which cluster", where, name)
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Contains(expr, "$by") || strings.Contains(expr, "%s") {
		t.Errorf("%s is no expression: %s", where, expr)
	}
}

const ofDemo = `namespace="inference",peercache_io_cluster="demo"`

func TestRules(t *testing.T) {
	rule := extra[*monitoringv1.PrometheusRule](t, mustPlan(t, testCluster(monitored(v1alpha1.ScrapePodMonitor), onlyRDMA)), "demo-metrics")
	known := metricsOfNodes(t)
	for _, r := range rule.Spec.Groups[0].Rules {
		if !strings.HasPrefix(r.Record, "peercache:") {
			t.Errorf("%q is no name of ours", r.Record)
		}
		checkExpression(t, r.Record, r.Expr.StrVal, ofDemo, known)
		known[r.Record] = true
	}
	names := map[string]bool{}
	for _, r := range rule.Spec.Groups[1].Rules {
		checkExpression(t, r.Alert, r.Expr.StrVal, ofDemo, known)
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || names[r.Alert] || r.For == nil {
			t.Errorf("alert %s is %+v", r.Alert, r)
		}
		names[r.Alert] = true
		for _, annotation := range []string{"summary", "description", "runbook_url"} {
			if len(r.Annotations[annotation]) < 20 {
				t.Errorf("alert %s has %s %q", r.Alert, annotation, r.Annotations[annotation])
			}
		}
		if want := "https://runbooks.example.com/v1/" + r.Alert + ".md"; r.Annotations["runbook_url"] != want {
			t.Errorf("alert %s links to %s, not to %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		file := "../../docs/runbooks/" + filepath.Base(r.Annotations["runbook_url"])
		page, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("alert %s has no runbook: %v", r.Alert, err)
		}
		for _, part := range []string{"# " + r.Alert + "\n", "\n## Impact\n", "\n## Check\n", "\n## Fix\n\n", "\n## Verify\n"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s lacks %q", file, part)
			}
		}
	}
	operators, err := os.ReadFile("../../config/prometheus/operator-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no runbooks (error %v)", err)
	}
	for _, page := range pages {
		if alert := strings.TrimSuffix(filepath.Base(page), ".md"); !names[alert] && !strings.Contains(string(operators), "alert: "+alert+"\n") {
			t.Errorf("runbook %s is of no alert", page)
		}
	}
}
