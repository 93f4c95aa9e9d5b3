// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRights: what the operator may write is bound where a value asks for it, and nowhere else.
func TestRights(t *testing.T) {
	for name, test := range map[string]struct{ values, want []string }{
		"none but those to run nodes": {nil, []string{"nodes everywhere", "pods everywhere", "tokens everywhere"}},
		"and no tokens":               {[]string{"rbac.tokens.enabled=false"}, []string{"nodes everywhere", "pods everywhere"}},
		"and no patches of pods":      {[]string{"rbac.pods.enabled=false"}, []string{"nodes everywhere", "tokens everywhere"}},
		"all": {
			[]string{
				"rbac.admissionPolicies.enabled=true", "rbac.missedPods.enabled=true", "rbac.networks.enabled=true", "rbac.monitoring.enabled=true",
			},
			[]string{
				"admission-policies everywhere", "missed-pods everywhere", "monitoring everywhere", "networks everywhere", "nodes everywhere",
				"pods everywhere", "tokens everywhere",
			},
		},
		"in some namespaces": {
			[]string{
				"rbac.namespaces={a,b}", "rbac.admissionPolicies.enabled=true", "rbac.missedPods.enabled=true", "rbac.networks.enabled=true",
				"rbac.networks.namespaces={b}", "rbac.monitoring.enabled=true",
			},
			[]string{
				"admission-policies everywhere", "missed-pods everywhere", "monitoring in a", "monitoring in b", "networks in b", "nodes in a",
				"nodes in b", "pods in a", "pods in b", "tokens in a", "tokens in b",
			},
		},
		"networks where nodes are, evictions where engines are": {
			[]string{
				"rbac.namespaces={a}", "rbac.networks.enabled=true", "rbac.missedPods.enabled=true", "rbac.missedPods.namespaces={engines}",
			},
			[]string{"missed-pods in engines", "networks in a", "nodes in a", "pods in a", "tokens in a"},
		},
		"values of a release that split nothing": {
			[]string{
				"rbac.namespaces=null", "rbac.pods=null", "rbac.tokens=null", "rbac.admissionPolicies=null", "rbac.missedPods=null", "rbac.networks=null", "rbac.monitoring=null",
			},
			[]string{"nodes everywhere", "pods everywhere", "tokens everywhere"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rights(t, helmTemplate(t, test.values...)); !slices.Equal(got, test.want) {
				t.Errorf("rights are %q, want %q", got, test.want)
			}
		})
	}
}

// TestUnpatchedPods: an operator is told that it may not patch pods where it has no role for that.
func TestUnpatchedPods(t *testing.T) {
	for value, want := range map[string]bool{"rbac.pods.enabled=true": false, "rbac.pods.enabled=false": true, "rbac.pods=null": false} {
		deployment := helmTemplate(t, value).get(t, "Deployment", "peercache-operator")
		if got := strings.Contains(fmt.Sprint(deployment), "--patch-pods=false"); got != want {
			t.Errorf("with %s the operator has the argument: %t", value, got)
		}
	}
}

// TestCertificateRights: only an operator that makes the webhook's certificate may read and write Secrets, in its own namespace.
func TestCertificateRights(t *testing.T) {
	for values, want := range map[string][]string{
		"webhook.enabled=true":             {"mutatingwebhookconfigurations [update]", "secrets [create get list watch]", "secrets [update]"},
		"webhook.enabled=false":            nil,
		"webhook.certManager.enabled=true": nil,
	} {
		var got []string
		for key, object := range helmTemplate(t, values) {
			if key.kind != "Role" && key.kind != "ClusterRole" || key.name != "peercache-operator" {
				continue
			}
			for _, rule := range list(t, object, "rules") {
				resource, verbs := rule["resources"].([]any)[0], fmt.Sprint(rule["verbs"])
				if resource == "secrets" || resource == "mutatingwebhookconfigurations" && strings.Contains(verbs, "update") {
					got = append(got, fmt.Sprintf("%v %s", resource, verbs))
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("with %s: %q, want %q", values, got, want)
		}
	}
}

// rights are the bindings of the roles of config/rights, each of which must be there and be the operator's.
func rights(t *testing.T, all objects) (found []string) {
	t.Helper()
	for key, object := range all {
		feature, ours := strings.CutPrefix(key.name, "peercache-operator-")
		if !ours || key.kind != "ClusterRoleBinding" && key.kind != "RoleBinding" {
			continue
		}
		where := " everywhere"
		if key.namespace != "" {
			where = " in " + key.namespace
		}
		found = append(found, feature+where)
		if len(list(t, all.get(t, "ClusterRole", text(t, object, "roleRef", "name")), "rules")) == 0 {
			t.Errorf("%s gives no rights", key.name)
		}
		subject := list(t, object, "subjects")[0]
		if subject["name"] != "peercache-operator" || subject["namespace"] != namespace {
			t.Errorf("%s is for %v", key.name, subject)
		}
	}
	slices.Sort(found)
	return found
}
