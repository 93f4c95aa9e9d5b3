// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestVariablesOfThePodTemplate checks that podTemplate cannot change an option of peercached, in a node and in a sidecar.
func TestVariablesOfThePodTemplate(t *testing.T) {
	const fromSecret = `"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}`
	for _, test := range []struct{ name, container, says string }{
		{"a variable of another program", `{"env": [{"name": "TZ", "value": "UTC"}]}`, ""},
		{"an option of extraConfig", `{"env": [{"name": "PEERCACHE_LOG_LEVEL", "value": "debug"}]}`,
			`sets the variable PEERCACHE_LOG_LEVEL of container peercached, which only the operator sets: write spec.extraConfig: {log-level: "debug"} instead`},
		{"a value that YAML would take for a switch", `{"env": [{"name": "PEERCACHE_MAP_POOLS", "value": "off"}]}`, `{map-pools: "off"}`},
		{"a value from elsewhere", `{"env": [{"name": "PEERCACHE_IO_THREADS", ` + fromSecret + `}]}`, `{io-threads: "VALUE"}`},
		{"an option of a field", `{"env": [{"name": "PEERCACHE_LEASE_MS", "value": "2000"}]}`, "write spec.timing.leaseMilliseconds instead"},
		{"an option that nothing changes", `{"env": [{"name": "PEERCACHE_NODE_ID", "value": "x"}]}`, "PEERCACHE_NODE_ID of container peercached, which only the operator sets: remove it"},
		{"the file of the token", `{"env": [{"name": "PEERCACHE_AUTH_TOKEN_FILE", "value": "/x"}]}`, "write spec.security.token instead"},
		{"a token", `{"env": [{"name": "PEERCACHE_TOKEN", ` + fromSecret + `}]}`, "PEERCACHE_TOKEN of container peercached, which only the operator sets: write spec.security.token instead"},
		{"the secret of tenants", `{"env": [{"name": "PEERCACHE_TENANT_SECRET_FILE", "value": "/x"}]}`, "write spec.sharing instead"},
		{"a key of TLS", `{"env": [{"name": "PEERCACHE_TLS_KEY_FILE", "value": "/x"}]}`, "write spec.security.tls instead"},
		{"another file", `{"env": [{"name": "PEERCACHE_CONFIG", "value": "/x"}]}`, "PEERCACHE_CONFIG of container peercached, which only the operator sets: remove it"},
		{"what the operator's variables refer to", `{"env": [{"name": "POD_IP", "value": "192.0.2.1"}]}`, "sets the variable POD_IP"},
		{"a variable less", `{"env": [{"name": "PEERCACHE_POOL_SIZE", "$patch": "delete"}]}`, "removes the variable PEERCACHE_POOL_SIZE"},
		{"no variable", `{"env": null}`, "removes the variable "},
		{"variables in a ConfigMap", `{"envFrom": [{"configMapRef": {"name": "x"}}]}`, "sets envFrom of container peercached"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := testCluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.PodTemplate = nodeTemplate(test.container) })
			_, err := For(cluster, testFacts)
			expectTemplateProblem(t, err, test.says)
			var inPod error
			if _, problem := NodeInPod(cluster, "default", "inference", testFacts); problem != nil {
				inPod = problem
			}
			expectTemplateProblem(t, inPod, test.says)
		})
	}
	other := withTemplate(t, `spec: {containers: [{name: exporter, image: x, env: [{name: PEERCACHE_URL, value: "http://localhost"}]}]}`)
	mustPlan(t, testCluster(other))
}

func expectTemplateProblem(t *testing.T, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("it is refused: %v", err)
	case says != "" && (err == nil || !strings.HasPrefix(err.Error(), "PodTemplateInvalid: podTemplate.spec ") || !strings.Contains(err.Error(), says)):
		t.Errorf("got %v, want it to say %q", err, says)
	}
}
