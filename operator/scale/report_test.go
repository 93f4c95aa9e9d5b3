// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// good returns a result that exactly meets every limit.
func good() *result {
	return &result{
		Nodes: 10, EnginePods: 5, Connected: 5, Webhook: latency{P99: maxWebhookP99},
		Phases: []phase{
			{Name: phaseApply, Writes: map[string]int{"patch pods": 10, "create events": 20}, PeakMemoryMiB: maxMemoryMiB},
			{Name: phaseIdle, Writes: map[string]int{endOfSeries: 1}}, {Name: phaseRestart, Writes: map[string]int{"create events": 2}},
		},
	}
}

func TestLimits(t *testing.T) {
	for name, spoil := range map[string]func(*result){
		"":                                 func(*result) {},
		"API writes per node":              func(r *result) { r.Phases[0].Writes["patch pods"]++ },
		"API writes while idle":            func(r *result) { r.Phases[1].Writes = map[string]int{"patch pods": 1, endOfSeries: 1} },
		"after a new start":                func(r *result) { r.Phases[2].Writes["patch pods"] = 1 },
		"memory":                           func(r *result) { r.Phases[2].PeakMemoryMiB = maxMemoryMiB + 0.1 },
		limitWebhookP99:                    func(r *result) { r.Webhook.P99 += 0.1 },
		"admissions that failed":           func(r *result) { r.Webhook.Failed = 1 },
		"SGLang pods that were not connec": func(r *result) { r.Connected-- },
	} {
		r := good()
		spoil(r)
		r.checkLimits()
		if r.met() != (name == "") {
			t.Errorf("case %q: met is %t: %+v", name, r.met(), r.Limits)
		}
		for _, l := range r.Limits {
			if missed := name != "" && strings.Contains(l.What, name); missed == l.OK {
				t.Errorf("case %q: %+v", name, l)
			}
		}
		var out bytes.Buffer
		r.print(&out)
		if strings.Contains(out.String(), "MISSED") == r.met() {
			t.Errorf("case %q: the table says\n%s", name, out.String())
		}
	}
}

func TestQuantiles(t *testing.T) {
	var sorted []time.Duration
	if quantile(sorted, 0.99) != 0 {
		t.Error("nothing was asked")
	}
	for i := range 1000 {
		sorted = append(sorted, time.Duration(i)*time.Millisecond)
	}
	for q, want := range map[float64]float64{0: 0, 0.5: 500, 0.99: 990, 0.999: 999, 1: 999} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
}

func TestParseKernelAndMetrics(t *testing.T) {
	status := []byte("Name:\toperator\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\n")
	if now, peak := statusField(status, "VmRSS"), statusField(status, "VmHWM"); now != 100 || peak != 200 {
		t.Errorf("memory is %g, at most %g", now, peak)
	}
	metrics := []byte("# HELP a_total x\na_total{c=\"x\",result=\"success\"} 3\na_total{c=\"x\",result=\"error\"} 1e+01\na_total{c=\"y\"} 7\n")
	if sum := sumOf(metrics, `a_total{c="x"`); sum != 13 {
		t.Errorf("the sum is %g", sum)
	}
}

func TestFlags(t *testing.T) {
	if _, err := parseFlags([]string{"--nodes=20"}, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"--nodes=0", "--rails=17", "--engines=0", "--rate=0"} {
		if _, err := parseFlags([]string{bad}, &bytes.Buffer{}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
