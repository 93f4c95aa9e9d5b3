// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"flag"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write config/bare-metal/rules.yml")

// TestBareMetalRules: Prometheus without Kubernetes has the rules of a cluster, for the labels of config/bare-metal/members.yml.
func TestBareMetalRules(t *testing.T) {
	const file = "../../config/bare-metal/rules.yml"
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	cluster := testCluster()
	cluster.Namespace, cluster.Name = "bare-metal", "default"
	rules := buildRules(cluster, "https://github.com/peercache/peercache/blob/v"+strings.TrimSpace(string(version))+"/docs/runbooks")
	text, err := yaml.Marshal(rules.Spec)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Written by `make monitoring-files`: the rules that a PeerCacheCluster has, for the labels of members.yml.\n" + string(text)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the alerts say (error %v): run make generate", file, err)
	}
}
