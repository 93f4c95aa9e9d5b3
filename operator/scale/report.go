// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// The limits.
const (
	maxWritesPerNode = 3
	maxMemoryMiB     = 200
	maxWebhookP99    = 10 // in milliseconds
)

// ownAtStart are the writes of a starting operator that do not depend on the size of clusters: the events of leader election, the
// attempt to create the webhook's Secret, and the CA of the webhook.
var ownAtStart = []string{"create events", "create secrets", "update mutatingwebhookconfigurations"}

// limitWebhookP99 is the only limit that depends on other load of the machine.
const limitWebhookP99 = "webhook p99, ms"

// result is the content of scale.json.
type result struct {
	Nodes         int `json:"nodes"`
	Groups        int `json:"groups"`
	RailsPerGroup int `json:"rails_per_group"`
	EnginePods    int `json:"engine_pods"`
	Cores         int `json:"cores"`

	// StableSeconds is the time from the creation of the cluster to the last change of its status.
	StableSeconds float64 `json:"stable_seconds"`
	// LagSeconds is the part of StableSeconds after the last pod was ready and counted: the share of the operator.
	LagSeconds float64 `json:"lag_seconds"`

	Phases    []phase  `json:"phases"`
	Connected int      `json:"engine_pods_connected"`
	Webhook   latency  `json:"webhook"`
	Fleet     answered `json:"fleet"`
	Samples   []sample `json:"samples"`
	Limits    []limit  `json:"limits"`
}

// phase is what the operator did in one phase.
type phase struct {
	Name    string         `json:"name"`
	Seconds float64        `json:"seconds"`
	Writes  map[string]int `json:"writes"`
	Reads   map[string]int `json:"reads"`
	// LeaseRenewals does not depend on the size of the cluster.
	LeaseRenewals int     `json:"lease_renewals"`
	Passes        int     `json:"passes"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	// The memory fields are the resident memory at the end of the phase, its peak since the start of the operator, and
	// the Go heap.
	MemoryMiB     float64 `json:"memory_mib"`
	PeakMemoryMiB float64 `json:"peak_memory_mib"`
	HeapMiB       float64 `json:"heap_mib"`
}

// endOfSeries is a write that ends a series of repeated events, six to twelve minutes later.
const endOfSeries = "patch events"

// writes counts all writes except the kinds in leftOut.
func (p phase) writes(leftOut ...string) int {
	sum := 0
	for name, n := range p.Writes {
		if !slices.Contains(leftOut, name) {
			sum += n
		}
	}
	return sum
}

type latency struct {
	Rate    int     `json:"rate_per_second"`
	Seconds float64 `json:"seconds"`
	Asked   int     `json:"asked"`
	Failed  int     `json:"failed"`
	Patched int     `json:"patched"`
	P50     float64 `json:"p50_ms"`
	P90     float64 `json:"p90_ms"`
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms"`
	Max     float64 `json:"max_ms"`
	LateP99 float64 `json:"late_p99_ms"` // delay of sending, which the other latencies contain
}

// answered counts the requests of the operator to discovery hosts.
type answered struct {
	Requests    int64 `json:"requests"`
	AnswerBytes int   `json:"answer_bytes"`
}

// sample is one sample of the run, taken about every second.
type sample struct {
	Seconds   float64 `json:"seconds"`
	Phase     string  `json:"phase"`
	Writes    int     `json:"writes"`
	MemoryMiB float64 `json:"memory_mib"`
	PodsReady int64   `json:"pods_ready"`
}

// limit is one limit with the measured value.
type limit struct {
	What  string  `json:"what"`
	Found float64 `json:"found"`
	Limit float64 `json:"limit"`
	OK    bool    `json:"ok"`
}

func (r *result) phase(name string) phase {
	for _, p := range r.Phases {
		if p.Name == name {
			return p
		}
	}
	return phase{}
}

// checkLimits compares the measurement with the limits.
func (r *result) checkLimits() {
	peak := 0.0
	for _, p := range r.Phases {
		peak = max(peak, p.PeakMemoryMiB)
	}
	atMost := func(what string, found, most float64) {
		r.Limits = append(r.Limits, limit{what, found, most, found <= most})
	}
	atMost("API writes per node, apply to stable", float64(r.phase(phaseApply).writes())/float64(r.Nodes), maxWritesPerNode)
	atMost("API writes while idle", float64(r.phase(phaseIdle).writes(endOfSeries)), 0)
	atMost("API writes about clusters after a new start", float64(r.phase(phaseRestart).writes(ownAtStart...)), 0)
	atMost("operator's highest memory, MiB", peak, maxMemoryMiB)
	atMost(limitWebhookP99, r.Webhook.P99, maxWebhookP99)
	atMost("admissions that failed", float64(r.Webhook.Failed), 0)
	atMost("SGLang pods that were not connected", float64(r.EnginePods-r.Connected), 0)
}

func (r *result) met() bool {
	return !slices.ContainsFunc(r.Limits, func(l limit) bool { return !l.OK })
}

func (r *result) print(out io.Writer) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	line("\n%d nodes x %d groups x %d rails, %d SGLang pods, %d cores\n", r.Nodes, r.Groups, r.RailsPerGroup, r.EnginePods, r.Cores)
	line("%-8s %8s %7s %7s %6s %7s %7s %8s %8s %8s", "phase", "seconds", "writes", "reads", "lease", "passes", "cpu s",
		"RSS MiB", "peak MiB", "heap MiB")
	for _, p := range r.Phases {
		reads := 0
		for _, n := range p.Reads {
			reads += n
		}
		line("%-8s %8.1f %7d %7d %6d %7d %7.1f %8.0f %8.0f %8.0f", p.Name, p.Seconds, p.writes(), reads, p.LeaseRenewals,
			p.Passes, p.CPUSeconds, p.MemoryMiB, p.PeakMemoryMiB, p.HeapMiB)
	}
	line("")
	for _, p := range r.Phases {
		if len(p.Writes) > 0 {
			line("writes of %s: %s", p.Name, listed(p.Writes))
		}
	}
	line("stable %.1f s after apply, %.1f s after the last node was ready", r.StableSeconds, r.LagSeconds)
	line("webhook at %d/s for %.0f s: %d asked, %d patched; p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f ms", r.Webhook.Rate,
		r.Webhook.Seconds, r.Webhook.Asked, r.Webhook.Patched, r.Webhook.P50, r.Webhook.P90, r.Webhook.P99, r.Webhook.P999, r.Webhook.Max)
	line("  of this, p99 of what requests were sent too late because the machine was busy: %.2f ms", r.Webhook.LateP99)
	line("discovery hosts asked %d times, %d bytes an answer\n", r.Fleet.Requests, r.Fleet.AnswerBytes)
	for _, l := range r.Limits {
		verdict := "ok"
		if !l.OK {
			verdict = "MISSED"
		}
		line("%-45s %9.2f  limit %5g  %s", l.What, l.Found, l.Limit, verdict)
	}
}

func listed(counts map[string]int) string {
	texts := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(texts, ", ")
}

func (r *result) save(file string) error {
	content, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o600); err != nil { //nolint:gosec // a file below --out
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

func newResult(c config) *result {
	return &result{Nodes: c.nodes, Groups: c.groups, RailsPerGroup: c.rails, EnginePods: c.engines, Cores: runtime.NumCPU()}
}
