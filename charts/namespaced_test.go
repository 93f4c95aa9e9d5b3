// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestWatchNamespaces: an operator of some namespaces has rights there, and elsewhere to webhook configurations only.
func TestWatchNamespaces(t *testing.T) {
	everything := []string{
		"watchNamespaces={a,b}", "rbac.missedPods.enabled=true", "rbac.networks.enabled=true", "rbac.networks.namespaces={b}", "rbac.monitoring.enabled=true",
	}
	for name, test := range map[string]struct {
		values, bound, elsewhere []string
	}{
		"all that it can": {
			everything,
			[]string{
				"missed-pods in a", "missed-pods in b", "monitoring in a", "monitoring in b", "networks in b", "nodes in a", "nodes in b", "pods in a",
				"pods in b", "tokens in a", "tokens in b", "watch in a", "watch in b",
			},
			[]string{
				"mutatingwebhookconfigurations [get list watch update]", "mutatingwebhookconfigurations [get list watch]",
				"validatingadmissionpolicies [get]",
			},
		},
		"with a certificate of cert-manager": {
			[]string{"watchNamespaces={a}", "webhook.certManager.enabled=true"}, []string{"nodes in a", "pods in a", "tokens in a", "watch in a"},
			[]string{"mutatingwebhookconfigurations [get list watch]"},
		},
		"without its webhook": {
			[]string{"watchNamespaces={a}", "webhook.enabled=false", "rbac.tokens.enabled=false"}, []string{"nodes in a", "pods in a", "watch in a"}, nil,
		},
		"without its webhook, but with networks": {
			[]string{"watchNamespaces={a}", "webhook.enabled=false", "rbac.networks.enabled=true"},
			[]string{"networks in a", "nodes in a", "pods in a", "tokens in a", "watch in a"}, []string{"validatingadmissionpolicies [get]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := helmTemplate(t, test.values...)
			var bound, elsewhere []string
			for key, object := range all {
				switch key.kind {
				case "RoleBinding":
					if feature, ours := strings.CutPrefix(key.name, "peercache-operator-"); ours {
						bound = append(bound, feature+" in "+key.namespace)
					}
					if text(t, object, "roleRef", "kind") != "Role" {
						t.Errorf("%s in %s binds a ClusterRole", key.name, key.namespace)
					}
				case "ClusterRoleBinding":
					role := all.get(t, "ClusterRole", text(t, object, "roleRef", "name"))
					for _, rule := range list(t, role, "rules") {
						elsewhere = append(elsewhere, fmt.Sprint(rule["resources"].([]any)[0], " ", rule["verbs"]))
					}
				}
			}
			slices.Sort(bound)
			slices.Sort(elsewhere)
			slices.Sort(test.elsewhere)
			if !slices.Equal(bound, test.bound) || !slices.Equal(elsewhere, test.elsewhere) {
				t.Errorf("rights %q, and in all namespaces %q; want %q and %q", bound, elsewhere, test.bound, test.elsewhere)
			}
		})
	}
}

// TestMetricsNeedACertificate: without a webhook there is none.
func TestMetricsNeedACertificate(t *testing.T) {
	_, stderr, err := run(t.Context(), program(t, "HELM", "helm"), "template", release, "peercache", "--namespace", namespace,
		"--kube-version", kubeVersion, "--set", "webhook.enabled=false", "--set", "metrics.tls.enabled=true")
	if err == nil || !strings.Contains(stderr, "metrics.tls.enabled=true needs the certificate of the webhook") {
		t.Errorf("error %v, %s", err, stderr)
	}
}

// TestWatchNamespacesRefuses: what cannot be done in some namespaces says so.
func TestWatchNamespacesRefuses(t *testing.T) {
	for value, says := range map[string]string{
		"csi.enabled=true":                     "csi.enabled=true with watchNamespaces",
		"rbac.admissionPolicies.enabled=true":  "rbac.admissionPolicies.enabled=true with watchNamespaces",
		"rbac.namespaces={b}":                  "rbac names the namespace b, which is not among watchNamespaces",
		"rbac.missedPods.namespaces={engines}": "rbac names the namespace engines, which is not among watchNamespaces",
	} {
		_, stderr, err := run(t.Context(), program(t, "HELM", "helm"), "template", release, "peercache", "--namespace", namespace,
			"--kube-version", kubeVersion, "--set", "watchNamespaces={a}", "--set", value)
		if err == nil || !strings.Contains(stderr, says) {
			t.Errorf("%s: error %v, %s; want %q", value, err, stderr, says)
		}
	}
}
