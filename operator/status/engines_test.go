// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/inject"
)

// engine is "pod machine ranks state age".
func engine(pod, machine string, ranks int, state inject.EngineState, age time.Duration) inject.Engine {
	return inject.Engine{Pod: "serving/" + pod, Machine: machine, Ranks: ranks, State: state, Since: noon.Add(-age)}
}

// seenEngines has members on gpu-1 (two groups) and gpu-2, with these engines attached.
func seenEngines(attached map[string]uint64, engines ...inject.Engine) *Observed {
	member := func(machine, group string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "kv-" + machine, Labels: map[string]string{v1alpha1.LabelGroup: group}},
			Spec:       corev1.PodSpec{NodeName: machine},
		}
	}
	return &Observed{
		Cluster: &v1alpha1.PeerCacheCluster{},
		Pods:    []corev1.Pod{member("gpu-1", "numa0"), member("gpu-1", "numa1"), member("gpu-2", "numa0")},
		Machines: []corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "gpu-9", Labels: map[string]string{v1alpha1.LabelDrain: v1alpha1.DrainNow}}},
		},
		Fleet:   FleetView{Fleet: &fleet.Fleet{}, Engines: attached},
		Engines: engines,
	}
}

func TestEnginesAttached(t *testing.T) {
	const long, short = time.Hour, time.Minute
	both := map[string]uint64{"gpu-1.numa0": 3, "gpu-1.numa1": 5, "gpu-2.numa0": 1}
	for name, test := range map[string]struct {
		seen   *Observed
		change func(*Observed)
		want   string // status/reason, or "" for no condition
		says   string
	}{
		"nobody looks": {seen: seenEngines(both), want: ""},
		"none":         {seen: seenEngines(both, []inject.Engine{}...), change: func(o *Observed) { o.Engines = []inject.Engine{} }, want: "True/NoEngines"},
		"members of their own": {seen: seenEngines(both, engine("a", "gpu-1", 8, inject.EngineReady, long)),
			change: func(o *Observed) { o.Cluster.Spec.Injection.Mode = v1alpha1.InjectionSidecar }, want: "True/NotApplicable"},
		"all": {seen: seenEngines(both, engine("a", "gpu-1", 8, inject.EngineReady, long), engine("b", "gpu-2", 1, inject.EngineReady, long)),
			want: "True/Attached", says: "9 of 2 pods"},
		"some are missing": {seen: seenEngines(both, engine("a", "gpu-1", 8, inject.EngineReady, long), engine("b", "gpu-2", 4, inject.EngineReady, long)),
			want: "False/NotAttached", says: "3 of 4 ranks on gpu-2 did not attach (serving/b, ready since 1 Jun 11:00 UTC)"},
		"ready just now": {seen: seenEngines(nil, engine("a", "gpu-1", 8, inject.EngineReady, short)), want: "True/Attached"},
		"starting":       {seen: seenEngines(nil, engine("a", "gpu-1", 8, inject.EngineStarting, long)), want: "True/Attached"},
		"no member there": {seen: seenEngines(both, engine("a", "gpu-1", 8, inject.EngineReady, long), engine("c", "gpu-3", 8, inject.EngineReady, long),
			engine("d", "gpu-3", 8, inject.EngineReady, 2*long)), want: "False/NoMemberThere",
			says: "serving/c and 1 more on gpu-3, ready since 1 Jun 10:00 UTC run where no member does, and have no cache: let spec.nodes.selector"},
		"drained":          {seen: seenEngines(both, engine("e", "gpu-9", 8, inject.EngineReady, long)), want: "True/Attached"},
		"blocked":          {seen: seenEngines(both, engine("f", "gpu-2", 1, inject.EngineBlocked, long)), want: "False/PodsBlocked", says: "serving/f on gpu-2 since 1 Jun 11:00 UTC wait for a volume"},
		"blocked just now": {seen: seenEngines(both, engine("f", "gpu-2", 1, inject.EngineBlocked, short)), want: "True/Attached"},
		"all causes": {seen: seenEngines(nil, engine("b", "gpu-2", 4, inject.EngineReady, long), engine("c", "gpu-3", 8, inject.EngineReady, long),
			engine("f", "gpu-2", 1, inject.EngineBlocked, long)), want: "False/NoMemberThere", says: "; 4 of 4 ranks on gpu-2 did not attach"},
		"nobody answers": {seen: seenEngines(nil, engine("a", "gpu-1", 8, inject.EngineReady, long)),
			change: func(o *Observed) { o.Fleet = FleetView{} }, want: "Unknown/NotHeard"},
		"planned": {seen: seenEngines(nil, engine("a", "gpu-1", 8, inject.EngineReady, long)),
			change: func(o *Observed) { o.Planned = &v1alpha1.PlanStatus{} }, want: "Unknown/PlanOnly"},
		"no member at all": {seen: seenEngines(nil, engine("a", "gpu-1", 8, inject.EngineReady, long)),
			change: func(o *Observed) { o.Pods = nil }, want: "False/NoMemberThere"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(test.seen)
			}
			memory := EngineMemory{missingSince: noon.Add(-lossGrace)}
			got := enginesAttached(test.seen, healthOf(test.seen), &memory, noon)
			if test.want == "" {
				if got != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 || string(got[0].Status)+"/"+got[0].Reason != test.want || !strings.Contains(got[0].Message, test.says) {
				t.Errorf("%+v, want %s: %s", got, test.want, test.says)
			}
		})
	}
}

// TestEnginesThatLeave checks that a member's restart changes nothing, and that engines that stay away have "left".
func TestEnginesThatLeave(t *testing.T) {
	var memory EngineMemory
	seen := seenEngines(nil, engine("b", "gpu-2", 2, inject.EngineReady, time.Hour))
	for _, step := range []struct {
		after    time.Duration
		attached uint64
		want     string
	}{
		{0, 2, "Attached"}, {time.Minute, 0, "Attached"}, {90 * time.Second, 2, "Attached"}, {100 * time.Second, 1, "Attached"},
		{200 * time.Second, 0, "Attached"}, {220 * time.Second, 0, "NotAttached"}, {230 * time.Second, 1, "NotAttached"}, {240 * time.Second, 2, "Attached"},
	} {
		seen.Fleet.Engines = map[string]uint64{"gpu-2.numa0": step.attached}
		got := enginesAttached(seen, healthOf(seen), &memory, noon.Add(step.after))
		if len(got) != 1 || got[0].Reason != step.want {
			t.Fatalf("after %s: %+v, want %s", step.after, got, step.want)
		}
		if step.want == "NotAttached" && !strings.Contains(got[0].Message, "on gpu-2 attached and left (serving/b,") {
			t.Errorf("after %s: %s", step.after, got[0].Message)
		}
		seen.Cluster.Status.Conditions = got
	}
	// Another operator tells at once what the former told.
	seen.Fleet.Engines, seen.Cluster.Status.Conditions = nil, []metav1.Condition{{Type: v1alpha1.ConditionEnginesAttached, Reason: "NotAttached"}}
	if got := enginesAttached(seen, healthOf(seen), &EngineMemory{}, noon.Add(time.Hour)); got[0].Reason != "NotAttached" {
		t.Errorf("%+v", got)
	}
}
