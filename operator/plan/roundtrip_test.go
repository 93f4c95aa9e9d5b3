// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
)

const roundTrip = "testdata/roundtrip"

// TestRoundTripFiles compares what the operator makes of cluster.json with the files beside it. test_config.py of the data
// plane starts a real node with these files, and compares its /v1/status with cluster.json.
func TestRoundTripFiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(roundTrip, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.PeerCacheCluster{}
	if err := json.Unmarshal(text, cluster); err != nil {
		t.Fatal(err)
	}
	desired := mustPlan(t, cluster)
	var environment strings.Builder
	for _, variable := range desired.DaemonSets[0].Spec.Template.Spec.Containers[0].Env {
		if variable.ValueFrom == nil {
			fmt.Fprintf(&environment, "%s=%s\n", variable.Name, variable.Value)
		}
	}
	for name, got := range map[string]string{configKey: desired.Config.Data[configKey], "environment": environment.String()} {
		want, err := os.ReadFile(filepath.Join(roundTrip, name))
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: the operator makes\n%s\nand there stands\n%s", name, got, want)
		}
	}
}
