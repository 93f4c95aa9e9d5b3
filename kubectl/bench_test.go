// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func perf(seconds float64, pages, hits int) execResult {
	return execResult{stdout: fmt.Sprintf(`{"seconds": %g, "pages": %d, "hits": %d, "bytes": %d,
		"latency_us": {"p50": 100.5, "p99": 900}}`, seconds, pages, hits, hits<<20)}
}

// benchFleet has two nodes. Node a reads every page of b, and node b misses pages of a.
func benchFleet() (*fakePods, []client.Object) {
	pods, objects := fleetOfThree()
	pods.answers["kv-default-a exec peercache-perf set"] = []any{perf(1, 256, 256)}
	pods.answers["kv-default-b exec peercache-perf set"] = []any{perf(1, 256, 256)}
	pods.answers["kv-default-a exec peercache-perf get"] = []any{perf(0.1, 224, 224)}
	pods.answers["kv-default-b exec peercache-perf get"] = []any{perf(0.2, 224, 200)}
	pods.answers["kv-default-a exec peercache-perf clear"] = []any{execResult{stdout: "{}"}}
	pods.answers["kv-default-b exec peercache-perf clear"] = []any{execResult{stdout: "{}"}}
	return pods, objects
}

func TestBench(t *testing.T) {
	pods, objects := benchFleet()
	got := runCommand(t, pods, objects, "bench", "kv")
	if got.status != 1 { // because pages were missed
		t.Errorf("status %d, stderr %s", got.status, got.stderr)
	}
	golden(t, "bench.txt", got.stdout)
	var steps []string
	for _, asked := range got.asked {
		if pod, command, ran := strings.Cut(asked, " exec peercache-perf "); ran {
			steps = append(steps, strings.Fields(command)[0]+" on "+pod)
			for _, want := range []string{"--socket /run/peercache/default.sock"} {
				if !strings.Contains(command, want) {
					t.Errorf("%s lacks %s", command, want)
				}
			}
			if strings.HasPrefix(command, "get") && !strings.Contains(command, "--warm-pages 32 --page-bytes 1048576 --batch 16 "+
				"--threads 2 --window 32 --pages 256") {
				t.Errorf("get is called as %s", command)
			}
		}
	}
	want := "set on kv-default-b, get on kv-default-a, clear on kv-default-b, set on kv-default-a, get on kv-default-b, clear on kv-default-a"
	if strings.Join(steps, ", ") != want {
		t.Errorf("steps %s, want %s", strings.Join(steps, ", "), want)
	}
}

// TestBenchClearsPages checks that the pages of a benchmark are removed after every kind of failure.
func TestBenchClearsPages(t *testing.T) {
	for name, failure := range map[string]any{
		"status":     execResult{status: 1, stderr: "peercache-perf: unavailable: connecting to /run/peercache/default.sock"},
		"no program": errors.New(`exec: "peercache-perf": executable file not found in $PATH`),
	} {
		pods, objects := benchFleet()
		pods.answers["kv-default-a exec peercache-perf get"] = []any{failure}
		got := runCommand(t, pods, objects, "bench", "--members", "node-a.default,node-b.default")
		if got.status != 1 || !strings.Contains(got.stdout, "error") || !strings.Contains(got.stdout, "node-a.default reads from node-b.default: ") {
			t.Errorf("%s: %+v", name, got)
		}
		cleared := 0
		for _, asked := range got.asked {
			if strings.Contains(asked, "exec peercache-perf clear") {
				cleared++
			}
		}
		if cleared != 2 {
			t.Errorf("%s: cleared %d times, want 2", name, cleared)
		}
	}
}

func TestWorkloadFor(t *testing.T) {
	flags := func(size, page string, batch, threads int) benchFlags {
		return benchFlags{size: resource.MustParse(size), page: resource.MustParse(page), batch: batch, threads: threads}
	}
	c := cluster("kv")
	for name, test := range map[string]struct {
		pool  uint64
		flags benchFlags
		want  workload
		err   string
	}{
		"large pool":      {64 << 30, flags("256Mi", "1Mi", 16, 2), workload{256, 32}, ""},
		"an eighth of it": {1 << 30, flags("256Mi", "1Mi", 16, 2), workload{128, 32}, ""},
		"whole calls":     {64 << 30, flags("250Mi", "1Mi", 16, 2), workload{224, 32}, ""},
		"small pool":      {256 << 20, flags("256Mi", "1Mi", 16, 2), workload{}, "hold 32 pages, and the benchmark needs 96"},
		"too much memory": {64 << 30, flags("1Gi", "16Mi", 16, 2), workload{}, "a quarter of resources.memoryOverhead (512Mi)"},
	} {
		got, err := workloadFor(c, test.pool, test.flags)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestBenchFlags(t *testing.T) {
	pods, objects := benchFleet()
	for args, want := range map[string]string{
		"--members node-a.default,node-x.default": "names node-x.default, which is not a ready member of inference/kv",
		"--members node-c.default,node-a.default": "names node-c.default, which is not a ready member of inference/kv",
		"--page-size 1Gi":                         "write a size from 4Ki to 64Mi",
		"--page-size 5001":                        "write a multiple of 8 bytes",
		"--size lots":                             `"lots" is not a size: write for example 256Mi`,
		"--threads 0":                             "at least 1",
		"--max-members 1":                         "at least 2",
	} {
		got := runCommand(t, pods, objects, append([]string{"bench", "kv"}, strings.Fields(args)...)...)
		if got.status != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
