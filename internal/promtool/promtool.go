// SPDX-License-Identifier: Apache-2.0

// Package promtool tests Prometheus rules with Prometheus' own promtool: the syntax of the rules, and for each alert when it
// fires and with which text.
//
//	promtool.Test(t, rule.Spec, []promtool.Case{{Alert: "NodeDown", Series: ..., At: "6m", Description: "..."}, ...})
//
// hack/dev/deps.sh installs promtool. Without it, the tests fail.
package promtool

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Series is the history of one time series in the notation of promtool ("0+2x60"), with one value for each Case.Every.
type Series struct {
	Name   string `json:"series"`
	Values string `json:"values"`
}

// Case is one history and the expected state of one alert.
type Case struct {
	Alert  string
	Series []Series
	At     string // when the alert is evaluated, for example 10m
	// Every is the time between values and between evaluations, "" for 1m. Long histories are slow with that.
	Every string
	// Description is the description of the firing alert. If it is empty, the alert must not fire.
	Description string
	// Labels are the labels of the firing alert, besides those of its rule.
	Labels map[string]string
}

// Fill puts labels into the name of a series: with "@": {a: b}, `up{@}` becomes `up{a="b"}`. Braces and commas delimit
// a place.
func Fill(name string, places map[string]map[string]string) string {
	head, rest, found := strings.Cut(name, "{")
	if !found {
		return name
	}
	parts := strings.Split(strings.TrimSuffix(rest, "}"), ",")
	for i, part := range parts {
		labels, known := places[part]
		if !known {
			continue
		}
		var texts []string
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			texts = append(texts, fmt.Sprintf("%s=%q", label, labels[label]))
		}
		parts[i] = strings.Join(texts, ",")
	}
	return head + "{" + strings.Join(parts, ",") + "}"
}

// Test fails unless promtool accepts the rules, every case has the expected result, and every alert has a case in which it
// fires and one in which it does not.
func Test(t *testing.T, rules monitoringv1.PrometheusRuleSpec, cases []Case) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), rules)
	run(t, dir, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")

	alerts := map[string]monitoringv1.Rule{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				alerts[rule.Alert] = rule
			}
		}
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	files := map[string][]testGroup{} // by the time between evaluations, which a file can have only one of
	for i, c := range cases {
		rule, known := alerts[c.Alert]
		if !known {
			t.Errorf("there is no alert %s", c.Alert)
			continue
		}
		if c.Description == "" {
			quiet[c.Alert] = true
		} else {
			fires[c.Alert] = true
		}
		every := cmp.Or(c.Every, "1m")
		files[every] = append(files[every], c.group(i, every, rule))
	}
	for name := range alerts {
		if !fires[name] || !quiet[name] {
			t.Errorf("alert %s has a case in which it fires: %t, one in which it does not: %t", name, fires[name], quiet[name])
		}
	}
	for every, groups := range files {
		write(t, filepath.Join(dir, "test.yaml"), testFile{RuleFiles: []string{"rules.yaml"}, EvaluationInterval: every, Tests: groups})
		run(t, dir, "test", "rules", "test.yaml")
	}
}

// Sample is one expected value of a query.
type Sample struct {
	Labels string  `json:"labels"` // in the notation of promtool: name{a="b"}
	Value  float64 `json:"value"`
}

// Evaluate fails unless a query has these values after the history, with a value for each minute.
func Evaluate(t *testing.T, rules monitoringv1.PrometheusRuleSpec, history []Series, at, query string, want []Sample) {
	t.Helper()
	group := testGroup{Name: query, Interval: "1m", Series: history, QueryTest: []queryTest{{Expr: query, At: at, Samples: want}}}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), rules)
	write(t, filepath.Join(dir, "test.yaml"), testFile{RuleFiles: []string{"rules.yaml"}, EvaluationInterval: "1m", Tests: []testGroup{group}})
	run(t, dir, "test", "rules", "test.yaml")
}

// Parse fails unless promtool can parse every expression.
func Parse(t *testing.T, expressions []string) {
	t.Helper()
	group := monitoringv1.RuleGroup{Name: "expressions"}
	for i, expr := range expressions {
		group.Rules = append(group.Rules, monitoringv1.Rule{Record: fmt.Sprintf("expression:%d", i), Expr: intstr.FromString(expr)})
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "expressions.yaml"), monitoringv1.PrometheusRuleSpec{Groups: []monitoringv1.RuleGroup{group}})
	run(t, dir, "check", "rules", "expressions.yaml")
}

// Load fails unless Prometheus can load a configuration and the rules that it names.
func Load(t *testing.T, config string) {
	t.Helper()
	run(t, filepath.Dir(config), "check", "config", "--lint=all", "--lint-fatal", filepath.Base(config))
}

// The format of `promtool test rules`.
type testFile struct {
	RuleFiles          []string    `json:"rule_files"`
	EvaluationInterval string      `json:"evaluation_interval"`
	Tests              []testGroup `json:"tests"`
}

type testGroup struct {
	Name      string      `json:"name"`
	Interval  string      `json:"interval"`
	Series    []Series    `json:"input_series"`
	AlertTest []alertTest `json:"alert_rule_test,omitempty"`
	QueryTest []queryTest `json:"promql_expr_test,omitempty"`
}

type alertTest struct {
	At     string     `json:"eval_time"`
	Alert  string     `json:"alertname"`
	Expect []expected `json:"exp_alerts"`
}

type queryTest struct {
	Expr    string   `json:"expr"`
	At      string   `json:"eval_time"`
	Samples []Sample `json:"exp_samples"`
}

type expected struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

func (c Case) group(number int, every string, rule monitoringv1.Rule) testGroup {
	test := alertTest{At: c.At, Alert: c.Alert}
	if c.Description != "" {
		alert := expected{Labels: maps.Clone(rule.Labels), Annotations: maps.Clone(rule.Annotations)}
		maps.Copy(alert.Labels, c.Labels)
		alert.Annotations["description"] = c.Description
		test.Expect = []expected{alert}
	}
	return testGroup{Name: fmt.Sprintf("case %d: %s", number, c.Alert), Interval: every, Series: c.Series, AlertTest: []alertTest{test}}
}

func write(t *testing.T, path string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatalf("writing %s: %v", path, err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatalf("writing %s: %v", path, err)
	}
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("promtool is missing (run hack/dev/deps.sh, and let make set the PATH): %v", err)
	}
	command := exec.CommandContext(t.Context(), program, args...) //nolint:gosec // this package makes the arguments
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}
