// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// alertmanager is what the sample uses of the configuration of Alertmanager.
type alertmanager struct {
	Route        route     `json:"route"`
	InhibitRules []inhibit `json:"inhibit_rules"`
	Receivers    []struct {
		Name           string              `json:"name"`
		WebhookConfigs []map[string]string `json:"webhook_configs,omitempty"`
	} `json:"receivers"`
}

type route struct {
	Receiver       string   `json:"receiver"`
	Matchers       []string `json:"matchers,omitempty"`
	GroupBy        []string `json:"group_by,omitempty"`
	GroupWait      string   `json:"group_wait,omitempty"`
	GroupInterval  string   `json:"group_interval,omitempty"`
	RepeatInterval string   `json:"repeat_interval,omitempty"`
	Routes         []route  `json:"routes,omitempty"`
}

type inhibit struct {
	SourceMatchers []string `json:"source_matchers"`
	TargetMatchers []string `json:"target_matchers"`
	Equal          []string `json:"equal"`
}

type firing map[string]string // labels of an alert

var matcherPattern = regexp.MustCompile(`^(\w+) (=|=~) "([^"]*)"$`)

// match says whether all matchers accept an alert. Other operators than = and =~ are refused.
func match(t *testing.T, matchers []string, alert firing) bool {
	t.Helper()
	for _, text := range matchers {
		parts := matcherPattern.FindStringSubmatch(strings.TrimSpace(text))
		if parts == nil {
			t.Fatalf("matcher %q is not understood", text)
		}
		pattern := parts[3]
		if parts[2] == "=" {
			pattern = regexp.QuoteMeta(pattern)
		}
		if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(alert[parts[1]]) {
			return false
		}
	}
	return true
}

// find returns the receiver of an alert and the labels by which it is grouped: those of the first route that matches.
func (r route) find(t *testing.T, alert firing, groupBy []string) (string, []string) {
	t.Helper()
	if r.GroupBy != nil {
		groupBy = r.GroupBy
	}
	for _, child := range r.Routes {
		if match(t, child.Matchers, alert) {
			return child.find(t, alert, groupBy)
		}
	}
	return r.Receiver, groupBy
}

func (a alertmanager) inhibited(t *testing.T, alert firing, all []firing) bool {
	t.Helper()
	return slices.ContainsFunc(a.InhibitRules, func(rule inhibit) bool {
		return match(t, rule.TargetMatchers, alert) && slices.ContainsFunc(all, func(source firing) bool {
			return match(t, rule.SourceMatchers, source) &&
				!slices.ContainsFunc(rule.Equal, func(label string) bool { return source[label] != alert[label] })
		})
	})
}

// messages are the messages that receivers get, each with the names of its alerts.
func (a alertmanager) messages(t *testing.T, alerts []firing) map[string][]string {
	t.Helper()
	groups := map[string]map[string]bool{}
	for _, alert := range alerts {
		if a.inhibited(t, alert, alerts) {
			continue
		}
		receiver, by := a.Route.find(t, alert, nil)
		parts := []string{receiver}
		for _, label := range by {
			parts = append(parts, alert[label])
		}
		key := strings.Join(parts, "/")
		if groups[key] == nil {
			groups[key] = map[string]bool{}
		}
		groups[key][alert["alertname"]] = true
	}
	result := map[string][]string{}
	for key, names := range groups {
		result[key] = slices.Sorted(maps.Keys(names))
	}
	return result
}

func readAlertmanager(t *testing.T) alertmanager {
	t.Helper()
	text, err := os.ReadFile("../config/prometheus/alertmanager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config alertmanager
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// severities are those of all alerts, of operator and members.
func severities(t *testing.T) map[string]string {
	t.Helper()
	cluster := &v1alpha1.PeerCacheCluster{}
	cluster.Name, cluster.Namespace = "kv", "inference"
	cluster.Spec.Transport = v1alpha1.TransportRDMA
	cluster.Spec.Rails = []v1alpha1.Rail{{Name: "rail0", Attachment: v1alpha1.AttachmentHostNetwork,
		HostNetwork: &v1alpha1.HostDevice{Device: "mlx5_0"}}}
	cluster.Spec.Monitoring.Rules = v1alpha1.RulesPrometheusRule
	desired, err := plan.For(cluster, plan.Facts{Runbooks: runbooksOf(version)})
	if err != nil {
		t.Fatal(err)
	}
	groups := operatorRules(t).Spec.Groups
	for _, object := range desired.Extras {
		if rule, is := object.(*monitoringv1.PrometheusRule); is {
			groups = append(groups, rule.Spec.Groups...)
		}
	}
	result := map[string]string{}
	for _, group := range groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				result[rule.Alert] = rule.Labels["severity"]
			}
		}
	}
	return result
}

// TestOnlyWhatCannotWaitPages: one alert wakes people. The runbooks of the others say that they can wait.
func TestOnlyWhatCannotWaitPages(t *testing.T) {
	var pages []string
	for alert, severity := range severities(t) {
		if severity == "critical" {
			pages = append(pages, alert)
		}
		text, err := os.ReadFile("../docs/runbooks/" + alert + ".md")
		if err != nil {
			t.Fatal(err)
		}
		_, impact, _ := strings.Cut(string(text), "\n## Impact\n")
		impact, _, _ = strings.Cut(impact, "\n## ")
		if !regexp.MustCompile(`can\s+wait\s+until\s+morning`).MatchString(impact) {
			t.Errorf("the runbook of %s does not say whether it can wait until morning: %s", alert, impact)
		}
		if now := regexp.MustCompile(`^\s*(?s:.*)Act\s+now`).MatchString(impact); now != (severity == "critical") {
			t.Errorf("%s is %s, and its runbook says to act now: %t", alert, severity, now)
		}
	}
	if !slices.Equal(pages, []string{"PeerCacheClusterUnavailable"}) {
		t.Errorf("%v are critical", pages)
	}
}

// TestAlertmanagerSample: names are those of alerts and receivers, and whatever inhibits has the labels of what it inhibits.
func TestAlertmanagerSample(t *testing.T) {
	config, known := readAlertmanager(t), severities(t)
	if len(known) < 25 {
		t.Fatalf("only alerts %v were found", known)
	}
	for _, rule := range config.InhibitRules {
		if !slices.Equal(rule.Equal, []string{"namespace", "peercache_io_cluster"}) {
			t.Errorf("%v inhibits by %v: alerts of other clusters, too", rule.SourceMatchers, rule.Equal)
		}
		for _, matcher := range slices.Concat(rule.SourceMatchers, rule.TargetMatchers) {
			value := matcherPattern.FindStringSubmatch(strings.TrimSpace(matcher))[3]
			names, _ := strings.CutPrefix(value, "PeerCache(")
			for name := range strings.SplitSeq(strings.TrimSuffix(names, ")"), "|") {
				if alert := "PeerCache" + strings.TrimPrefix(name, "PeerCache"); known[alert] == "" {
					t.Errorf("%s names %s, which is no alert", matcher, alert)
				}
			}
		}
	}
	var receivers []string
	for _, receiver := range config.Receivers {
		receivers = append(receivers, receiver.Name)
	}
	for alert, severity := range known {
		receiver, by := config.Route.find(t, firing{"alertname": alert, "severity": severity}, nil)
		want := map[string]string{"critical": "pager", "warning": "tickets", "info": "log"}[severity]
		if receiver != want || !slices.Contains(receivers, receiver) || !slices.Equal(by, []string{"namespace", "peercache_io_cluster"}) {
			t.Errorf("%s of severity %s goes to %s by %v", alert, severity, receiver, by)
		}
	}
}

// TestASwitchThatDiesIsOnePage: forty machines are cut off. Alerts of other clusters stay.
func TestASwitchThatDiesIsOnePage(t *testing.T) {
	config, known := readAlertmanager(t), severities(t)
	of := func(cluster, alert string, more ...string) firing {
		labels := firing{"alertname": alert, "severity": known[alert], "namespace": "inference", "peercache_io_cluster": cluster}
		for i := 0; i+1 < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	var members, rails []firing
	for machine := range 40 {
		pod := fmt.Sprintf("kv-%d", machine)
		members = append(members, of("kv", "PeerCacheNodeDown", "pod", pod), of("kv", "PeerCacheNodeNotReady", "pod", pod),
			of("kv", "PeerCacheRepairBacklog", "pod", pod))
		for rail := range 8 {
			rails = append(rails, of("kv", "PeerCacheRailDown", "pod", pod, "rail", strconv.Itoa(rail)))
		}
		rails = append(rails, of("kv", "PeerCacheReadsOverTCP", "pod", pod))
	}
	whole := slices.Concat(members, rails, []firing{of("kv", "PeerCacheMembersDisagree"), of("kv", "PeerCacheReadFaults"),
		of("kv", "PeerCacheClusterDegraded"), of("kv", "PeerCacheClusterNotReady"), of("kv", "PeerCacheClusterUnavailable")})
	for name, c := range map[string]struct {
		alerts []firing
		want   map[string][]string
	}{
		"all of a cluster": {whole, map[string][]string{"pager/inference/kv": {"PeerCacheClusterUnavailable"}}},
		"beside another cluster": {append(slices.Clone(whole), of("other", "PeerCacheNodeDown")), map[string][]string{
			"pager/inference/kv": {"PeerCacheClusterUnavailable"}, "tickets/inference/other": {"PeerCacheNodeDown"}}},
		"a part of a cluster": {append(slices.Clone(members), of("kv", "PeerCacheClusterDegraded"), of("kv", "PeerCacheClusterNotReady")),
			map[string][]string{"tickets/inference/kv": {"PeerCacheClusterDegraded"}}},
		"rails alone": {rails, map[string][]string{"tickets/inference/kv": {"PeerCacheRailDown"}}},
		"something else meanwhile": {append(slices.Clone(whole), of("kv", "PeerCacheChecksumMismatch", "pod", "kv-50")), map[string][]string{
			"pager/inference/kv": {"PeerCacheClusterUnavailable"}, "tickets/inference/kv": {"PeerCacheChecksumMismatch"}}},
	} {
		if got := config.messages(t, c.alerts); !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: messages are %v, want %v", name, got, c.want)
		}
	}
}
