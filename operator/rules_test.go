// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"
)

func operatorRules(t *testing.T) monitoringv1.PrometheusRule {
	t.Helper()
	text, err := os.ReadFile("../config/prometheus/operator-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rule monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(text, &rule); err != nil {
		t.Fatal(err)
	}
	return rule
}

// released is the version in VERSION.
func released(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// isExported says whether the operator has a metric of a name: another with that name is refused.
func isExported(name string) bool {
	probe := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: "is the name free?"}, []string{"a", "label"})
	if metrics.Registry.Register(probe) != nil {
		return true
	}
	metrics.Registry.Unregister(probe)
	return false
}

func TestOperatorRules(t *testing.T) {
	names := map[string]bool{}
	for _, rule := range operatorRules(t).Spec.Groups[0].Rules {
		names[rule.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) || rule.For == nil {
			t.Errorf("alert %s has severity %q and for %v", rule.Alert, rule.Labels["severity"], rule.For)
		}
		found := regexp.MustCompile(`\b([a-z_]+)(?:\{| (?:[=><]|-) ?)`).FindAllStringSubmatch(rule.Expr.StrVal, -1)
		if len(found) == 0 {
			t.Errorf("no metric is found in %s", rule.Expr.StrVal)
		}
		for _, match := range found {
			if name := strings.TrimSuffix(match[1], "_bucket"); name != "up" && !isExported(name) {
				t.Errorf("alert %s reads %s, which the operator does not export", rule.Alert, name)
			}
		}
		for _, annotation := range []string{"summary", "description", "runbook_url"} {
			if len(rule.Annotations[annotation]) < 20 {
				t.Errorf("alert %s has %s %q", rule.Alert, annotation, rule.Annotations[annotation])
			}
		}
		if want := runbooksOf(released(t)) + "/" + rule.Alert + ".md"; rule.Annotations["runbook_url"] != want {
			t.Errorf("alert %s links to %s, not to %s", rule.Alert, rule.Annotations["runbook_url"], want)
		}
		page, err := os.ReadFile("../docs/runbooks/" + filepath.Base(rule.Annotations["runbook_url"]))
		if err != nil {
			t.Errorf("alert %s has no runbook: %v", rule.Alert, err)
		}
		for _, part := range []string{"# " + rule.Alert + "\n", "\n## Impact\n", "\n## Check\n", "\n## Fix\n\n", "\n## Verify\n"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("the runbook of %s lacks %q", rule.Alert, part)
			}
		}
	}
	if len(names) != 10 {
		t.Errorf("alerts are %v", names)
	}
}

func TestIsExported(t *testing.T) {
	if !isExported("peercache_operator_cluster_condition") || !isExported("controller_runtime_webhook_latency_seconds") ||
		isExported("peercache_operator_nothing") || isExported("peercache_operator_nothing") {
		t.Error("names of metrics are not told apart")
	}
}

// runbookSections returns the sections of each runbook by their headings.
func runbookSections(t *testing.T) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob("../docs/runbooks/*.md")
	if err != nil || len(files) < 25 {
		t.Fatalf("runbooks are %v (error %v)", files, err)
	}
	result := map[string]map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sections := map[string]string{}
		for _, section := range strings.Split(string(text), "\n## ")[1:] {
			heading, rest, _ := strings.Cut(section, "\n")
			sections[heading] = rest
		}
		result[filepath.Base(file)] = sections
	}
	return result
}

// commandsOf returns the lines of the indented blocks of a section.
func commandsOf(section string) (commands []string) {
	for line := range strings.Lines(section) {
		if command, indented := strings.CutPrefix(line, "    "); indented && !strings.HasPrefix(command, " ") {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// TestRunbooksHaveCommands: commands of Check and Verify can be copied, and name a namespace.
func TestRunbooksHaveCommands(t *testing.T) {
	for name, sections := range runbookSections(t) {
		for _, heading := range []string{"Check", "Verify"} {
			commands := commandsOf(sections[heading])
			if len(commands) == 0 {
				t.Errorf("%s: section %s has no command", name, heading)
			}
			for _, command := range commands {
				if strings.HasPrefix(command, "kubectl ") && !strings.Contains(command, " -n ") && !strings.Contains(command, " -A ") &&
					!strings.Contains(command, "/namespaces/") {
					t.Errorf("%s: %s names no namespace", name, command)
				}
			}
		}
		if !strings.Contains(sections["Verify"], "\nYou should see ") {
			t.Errorf("%s does not say what to see", name)
		}
		if !regexp.MustCompile(`(?m)^1\. `).MatchString(sections["Fix"]) {
			t.Errorf("%s has no steps", name)
		}
	}
}
