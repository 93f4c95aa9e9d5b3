// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
)

const optionsOfDataPlane = "../../dataplane/src/node/config/config.cc"

// TestOptionsAreThoseOfTheDataPlane compares the names with the data plane's table.
func TestOptionsAreThoseOfTheDataPlane(t *testing.T) {
	text, err := os.ReadFile(optionsOfDataPlane)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "constexpr ConfigOption kOptions[] = {")
	table, _, ended := strings.Cut(table, "\n};")
	if !found || !ended {
		t.Fatalf("%s has no table of options", optionsOfDataPlane)
	}
	var theirs []string
	for _, match := range regexp.MustCompile(`(?m)^    \{"([a-z0-9-]+)",`).FindAllStringSubmatch(table, -1) {
		theirs = append(theirs, match[1])
	}
	ours := append(slices.Collect(maps.Keys(fieldOfOption)), freeOptions...)
	slices.Sort(theirs)
	slices.Sort(ours)
	if len(theirs) < 50 || !slices.Equal(ours, theirs) {
		t.Errorf("the operator knows\n%s\nand the data plane has\n%s", strings.Join(ours, " "), strings.Join(theirs, " "))
	}
	if !slices.IsSorted(freeOptions) {
		t.Error("a message lists freeOptions, in this order")
	}
}

// TestOptionsThatTheOperatorSets checks that extraConfig can set none of them: the last one in the file would win.
func TestOptionsThatTheOperatorSets(t *testing.T) {
	cluster := testCluster(withRails(v1alpha1.TransportRDMA, onHost("a", "", "mlx5_0")), everyRDMA, onDisk("/mnt/a"), func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails[0].NUMANode = new(int32(0))
		s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "x", PeerName: "y"}
	})
	group := Groups(cluster.Spec)[0]
	for _, s := range slices.Concat(settings(cluster), nodeSettings(cluster.Spec, group, "x"), group.diskSettings(cluster.Spec)) {
		if _, known := fieldOfOption[s.Name]; !known {
			t.Errorf("the operator sets %s, which extraConfig may set, too", s.Name)
		}
	}
}

func everyRDMA(s *v1alpha1.PeerCacheClusterSpec) {
	s.RDMA = v1alpha1.RDMASpec{TrafficClass: new(int32(104)), ServiceLevel: new(int32(3)), PartitionKeyIndex: new(int32(1)),
		GID: "IPv4", MTU: new(int32(4096)), OnDemandPaging: v1alpha1.SwitchEnabled}
}

func TestTuning(t *testing.T) {
	extra := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.ExtraConfig = map[string]string{"log-level": "debug", "io-threads": "4", "high-watermark": "90%"}
	}
	if got := mustPlan(t, testCluster(everyRDMA, extra)).Config.Data[configKey]; !strings.Contains(got, `rdma-traffic-class = 104
rdma-service-level = 3
rdma-pkey-index = 1
rdma-mtu = 4096
rdma-gid = "ipv4"
rdma-odp = "on"
high-watermark = "90%"
io-threads = 4
log-level = "debug"
`) {
		t.Errorf("the configuration is\n%s", got)
	}
	plain := mustPlan(t, testCluster()).Config.Data[configKey]
	disabled := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.RDMA.OnDemandPaging = v1alpha1.SwitchDisabled }))
	if got := disabled.Config.Data[configKey]; got != plain || strings.Contains(plain, "rdma-") {
		t.Errorf("without settings the configuration is\n%s", got)
	}
}

func TestExtraConfigProblems(t *testing.T) {
	for _, test := range []struct{ name, value, says string }{
		{"log-level", "debug", ""},
		{"socket-uids", "same,1000", ""},
		{"lease-ms", "500", "lease-ms, which the operator sets itself: write spec.timing.leaseMilliseconds instead"},
		{"rdma-gid", "ipv4", "write spec.rdma.gid instead"},
		{"disk-path", "/mnt/a", "write spec.disk instead"},
		{"node-id", "x", "node-id, which the operator sets itself: remove it"},
		{"loglevel", "debug", "which peercached does not have: write one of checksums, copy-threads, "},
		{"PEERCACHE_LOG_LEVEL", "debug", "which peercached does not have"},
		{"log-level", "", `to "", which is not a value`},
		{"log-level", "$(TOKEN)", "which is not a value"},
		{"log-level", "a\nb = c", "which is not a value"},
		{"log-level", `a"`, "which is not a value"},
	} {
		_, err := For(testCluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.ExtraConfig = map[string]string{test.name: test.value} }), testFacts)
		switch {
		case test.says == "" && err != nil:
			t.Errorf("%s: %s is refused: %v", test.name, test.value, err)
		case test.says != "" && (err == nil || !strings.HasPrefix(err.Error(), "ExtraConfigInvalid: ") || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %s: got %v, want it to say %q", test.name, test.value, err, test.says)
		}
	}
}
