// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

func TestConditions(t *testing.T) {
	broken := []fault{{of: "pod demo-x", members: 1, reason: "CrashLoopBackOff", text: "it exits"}}
	many := []fault{{of: "pod a", members: 1}, {of: "pod b", members: 1}, {of: "pod c", members: 1}, {of: "pod d", members: 1}, {of: "pod e", members: 1, text: "hidden"}}
	for i := range many {
		many[i].reason = "Unschedulable"
	}
	tests := []struct {
		name     string
		problem  *plan.Problem
		progress rollout
		faults   []fault
		want     string // as Type=Status/Reason, in the order of conditionsOf; without Available: available_test.go
		says     string // a part of the message of Ready
	}{
		{"ready", nil, rollout{desired: 3, ready: 3, updated: 3}, nil,
			"ConfigAccepted=True/Accepted Progressing=False/Settled Degraded=False/NoFaults Ready=True/AllMembersReady",
			"3/3 members serve"},
		{"nobody has looked yet", nil, rollout{desired: 3, ready: 3, updated: 3, pending: true}, nil,
			"ConfigAccepted=True/Accepted Progressing=True/WaitingForController Degraded=False/NoFaults " +
				"Ready=False/WaitingForController", "has not seen"},
		{"no machine", nil, rollout{}, nil,
			"ConfigAccepted=True/Accepted Progressing=False/Settled Degraded=False/NoFaults Ready=False/NoNodes",
			"spec.nodes.selector"},
		{"every machine is drained", nil, rollout{drained: 2, drainedMachines: []string{"m", "n"}}, nil,
			"ConfigAccepted=True/Accepted Progressing=False/Settled Degraded=False/NoFaults Ready=False/AllDrained",
			"(m; n): bring one back with kubectl peercache undrain"},
		{"ready, with drained machines", nil, rollout{desired: 1, ready: 1, updated: 1, drained: 4, drainedMachines: []string{"m", "n", "o", "p"}}, nil,
			"ConfigAccepted=True/Accepted Progressing=False/Settled Degraded=False/NoFaults Ready=True/AllMembersReady",
			"1/1 members serve; drained machines: m; n; o; and 1 more"},
		{"starting", nil, rollout{desired: 3, ready: 1, updated: 3}, nil,
			"ConfigAccepted=True/Accepted Progressing=True/Starting Degraded=False/NoFaults Ready=False/MembersStarting",
			"1/3"},
		{"rolling out", nil, rollout{desired: 3, ready: 3, updated: 1}, nil,
			"ConfigAccepted=True/Accepted Progressing=True/RollingOut Degraded=False/NoFaults Ready=False/RollingOut",
			"1 of 3"},
		{"broken", nil, rollout{desired: 3, ready: 2, updated: 3}, broken,
			"ConfigAccepted=True/Accepted Progressing=False/Settled Degraded=True/CrashLoopBackOff Ready=False/MembersBroken",
			"2/3 members are ready; pod demo-x: it exits"},
		{"one broken, one starting", nil, rollout{desired: 3, ready: 1, updated: 3}, broken,
			"ConfigAccepted=True/Accepted Progressing=True/Starting Degraded=True/CrashLoopBackOff Ready=False/MembersBroken",
			"1/3"},
		{"many broken", nil, rollout{desired: 5, updated: 5}, many,
			"ConfigAccepted=True/Accepted Progressing=False/Settled Degraded=True/Unschedulable Ready=False/MembersBroken",
			"and 2 more"},
		{"not accepted", &plan.Problem{Reason: "HostPortConflict", Message: "put them into one group"},
			rollout{desired: 3, ready: 3, updated: 3}, nil,
			"ConfigAccepted=False/HostPortConflict Progressing=False/ConfigNotAccepted Degraded=False/NoFaults " +
				"Ready=False/ConfigNotAccepted", "put them into one group"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conditions := conditionsOf(conditionInputs{problem: test.problem, progress: test.progress, faults: test.faults, checks: []metav1.Condition{}})
			var got []string
			for _, condition := range conditions {
				if condition.Type != v1alpha1.ConditionAvailable {
					got = append(got, condition.Type+"="+string(condition.Status)+"/"+condition.Reason)
				}
				if condition.Message == "" || !conditionReason.MatchString(condition.Reason) {
					t.Errorf("%s would be refused: %+v", condition.Type, condition)
				}
			}
			if joined := strings.Join(got, " "); joined != test.want {
				t.Errorf("got\n%s, want\n%s", joined, test.want)
			}
			if message := meta.FindStatusCondition(conditions, "Ready").Message; !strings.Contains(message, test.says) ||
				strings.Contains(message, "hidden") {
				t.Errorf("Ready says %q, want %q", message, test.says)
			}
		})
	}
}

func TestConditionsDuringAnUpdate(t *testing.T) {
	byHand := update{spec: v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateOnDelete}}
	paused := update{spec: v1alpha1.UpdateSpec{MaxHitRatioDrop: new(int32(20))}, hitPercent: new(int32(61)),
		status: &v1alpha1.UpdateStatus{HitRatioBefore: new(int32(90)), State: v1alpha1.UpdatePaused}}
	broken := []fault{{of: "pod demo-x", members: 1, reason: "CrashLoopBackOff", text: "it exits"}}
	tests := []struct {
		name        string
		update      update
		progress    rollout
		faults      []fault
		progressing string // as Status/Reason
		ready       string
		says        []string // parts of the message of Progressing
	}{
		{"by hand, and nobody has deleted anything", byHand, rollout{desired: 3, ready: 3, updated: 1}, nil,
			"False/WaitingForDeletion", "True/AllMembersReady", []string{"1 of 3 members", "delete the pods of the remaining ones"}},
		{"by hand, and one has been deleted", byHand, rollout{desired: 3, ready: 2, updated: 2}, nil,
			"True/Starting", "False/MembersStarting", []string{"2/3 members are ready"}},
		{"by hand, and one is broken", byHand, rollout{desired: 3, ready: 2, updated: 2}, broken,
			"False/WaitingForDeletion", "False/MembersBroken", []string{"2 of 3 members"}},
		{"by hand, and done", byHand, rollout{desired: 3, ready: 3, updated: 3}, nil,
			"False/Settled", "True/AllMembersReady", nil},
		{"paused", paused, rollout{desired: 3, ready: 3, updated: 1}, nil,
			"True/Paused", "False/RollingOut", []string{"1 of 3 members", "61 of 100 pages are found instead of 90: it continues at 70"}},
		{"paused, and the members say nothing", update{spec: paused.spec, status: paused.status}, rollout{desired: 3, ready: 3, updated: 1}, nil,
			"True/Paused", "False/RollingOut", []string{"until the members report"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conditions := conditionsOf(conditionInputs{progress: test.progress, update: test.update, faults: test.faults, checks: []metav1.Condition{}})
			for kind, want := range map[string]string{"Progressing": test.progressing, "Ready": test.ready} {
				if got := meta.FindStatusCondition(conditions, kind); string(got.Status)+"/"+got.Reason != want {
					t.Errorf("%s is %s/%s (%s), want %s", kind, got.Status, got.Reason, got.Message, want)
				}
			}
			message := meta.FindStatusCondition(conditions, "Progressing").Message
			for _, text := range test.says {
				if !strings.Contains(message, text) {
					t.Errorf("Progressing says %q, which lacks %q", message, text)
				}
			}
		})
	}
}

func TestConditionsOfPreflight(t *testing.T) {
	short := newCondition("DevicesAvailable", metav1.ConditionFalse, "DeviceMissing", "none")
	accepted := conditionsOf(conditionInputs{checks: []metav1.Condition{short}})
	if got := meta.FindStatusCondition(accepted, "DevicesAvailable"); got == nil || got.Reason != "DeviceMissing" {
		t.Errorf("got %+v", got)
	}
	refused := conditionsOf(conditionInputs{problem: &plan.Problem{Reason: "X", Message: "y"}})
	for _, kind := range []string{"DevicesAvailable", "NetworksResolved"} {
		if got := meta.FindStatusCondition(refused, kind); got == nil || got.Status != metav1.ConditionUnknown {
			t.Errorf("%s of a spec that is not accepted is %+v", kind, got)
		}
	}
	if eventType(short, nil) != "Warning" || eventType(newCondition("Ready", metav1.ConditionFalse, "X", ""), nil) != "Normal" {
		t.Error("a shortage is a warning, a cluster that starts is none")
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	text := listFaults([]fault{{of: "pod a", members: 1, text: strings.Repeat("ü", 10000)}})
	if len(text) > 5000 || !strings.HasSuffix(text, "...") || strings.ToValidUTF8(text, "?") != text {
		t.Errorf("message of %d bytes is not cut well: ...%q", len(text), text[len(text)-20:])
	}
}

func TestTransition(t *testing.T) {
	before := []metav1.Condition{newCondition("Ready", metav1.ConditionFalse, "MembersStarting", "1/3")}
	tests := []struct {
		name  string
		after metav1.Condition
		want  bool
	}{
		{"new", newCondition("Degraded", metav1.ConditionFalse, "NoFaults", ""), true},
		{"status", newCondition("Ready", metav1.ConditionTrue, "AllMembersReady", ""), true},
		{"reason", newCondition("Ready", metav1.ConditionFalse, "RollingOut", "1/3"), true},
		{"message only", newCondition("Ready", metav1.ConditionFalse, "MembersStarting", "2/3"), false},
	}
	for _, test := range tests {
		if got := transition(before, test.after); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
}

func TestRollout(t *testing.T) {
	daemonSet := func(group string, generation, observed int64, desired, updated, ready int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Generation: generation, Labels: map[string]string{"peercache.io/group": group}},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: observed, DesiredNumberScheduled: desired,
				UpdatedNumberScheduled: updated, NumberReady: ready},
		}
	}
	got := rolloutOf(map[string]*appsv1.DaemonSet{
		"demo-numa1": daemonSet("numa1", 2, 2, 3, 3, 1), "demo-numa0": daemonSet("numa0", 1, 1, 3, 2, 2),
	}, nil)
	if got.members() != "3/6" || got.updated != 5 || got.pending || got.complete() {
		t.Errorf("sum is %+v", got)
	}
	if len(got.groups) != 2 || got.groups[0].Name != "numa0" || got.groups[1].Ready != 1 {
		t.Errorf("groups are %+v", got.groups)
	}
	if behind := rolloutOf(map[string]*appsv1.DaemonSet{"d": daemonSet("d", 2, 1, 3, 3, 3)}, nil); behind.complete() {
		t.Error("numbers that the controller has not renewed are believed")
	}
}
