// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

func TestAvailable(t *testing.T) {
	groups := func(readyOfThree ...int32) rollout {
		var sum rollout
		for i, ready := range readyOfThree {
			sum.groups = append(sum.groups, v1alpha1.GroupStatus{Name: string(rune('a' + i)), Desired: 3, Ready: ready})
			sum.desired, sum.ready = sum.desired+3, sum.ready+ready
		}
		return sum
	}
	withoutMachines := groups(3)
	withoutMachines.groups = append(withoutMachines.groups, v1alpha1.GroupStatus{Name: "z"})
	rolling := groups(3)
	rolling.pending = true
	refused := &plan.Problem{Reason: "HostPortConflict", Message: "put them into one group"}
	planned := &v1alpha1.PlanStatus{}
	for name, test := range map[string]struct {
		in   conditionInputs
		want string
		says string
	}{
		"all serve":                           {conditionInputs{progress: groups(3, 3), discovery: true}, "True/Serving", "2 groups"},
		"one member of each group":            {conditionInputs{progress: groups(1, 1), discovery: true}, "True/Serving", ""},
		"a changed spec":                      {conditionInputs{progress: rolling, discovery: true}, "True/Serving", ""},
		"a group of no machines":              {conditionInputs{progress: withoutMachines, discovery: true}, "True/Serving", "1 groups"},
		"a group without a ready member":      {conditionInputs{progress: groups(3, 0), discovery: true}, "False/GroupsDown", "b: 0/3"},
		"no discovery host":                   {conditionInputs{progress: groups(3)}, "False/DiscoveryDown", "peercache.io/discovery=host"},
		"refused, and members run":            {conditionInputs{problem: refused, progress: groups(1), discovery: true}, "True/Serving", ""},
		"refused, and nothing runs":           {conditionInputs{problem: refused}, "False/ConfigNotAccepted", "into one group"},
		"no machine":                          {conditionInputs{}, "False/NoMembers", "see condition Ready"},
		"only planned":                        {conditionInputs{planned: planned}, "False/PlanOnly", "mode: Apply"},
		"only planned, and members still run": {conditionInputs{planned: planned, progress: groups(2), discovery: true}, "True/Serving", ""},
	} {
		got := available(test.in)
		if string(got.Status)+"/"+got.Reason != test.want || !strings.Contains(got.Message, test.says) {
			t.Errorf("%s: %s/%s (%s), want %s saying %q", name, got.Status, got.Reason, got.Message, test.want, test.says)
		}
	}
}

func TestDiscoveryReady(t *testing.T) {
	pod := func(host bool, ready corev1.ConditionStatus, change ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
		if host {
			p.Labels = map[string]string{v1alpha1.LabelDiscovery: v1alpha1.DiscoveryHost}
		}
		for _, f := range change {
			f(&p)
		}
		return p
	}
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"no pod":                     {nil, false},
		"a ready pod, not a host":    {[]corev1.Pod{pod(false, corev1.ConditionTrue)}, false},
		"a host that is not ready":   {[]corev1.Pod{pod(true, corev1.ConditionFalse)}, false},
		"a host that is being ended": {[]corev1.Pod{pod(true, corev1.ConditionTrue, ending)}, false},
		"one of two hosts is ready":  {[]corev1.Pod{pod(true, corev1.ConditionFalse), pod(true, corev1.ConditionTrue)}, true},
	} {
		if got := discoveryReady(test.pods); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestLosingAvailabilityIsAWarning(t *testing.T) {
	down := newCondition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "GroupsDown", "")
	up := newCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, "Serving", "")
	for _, test := range []struct {
		now    metav1.Condition
		before *metav1.Condition
		want   string
	}{{down, nil, "Normal"}, {down, &down, "Normal"}, {down, &up, "Warning"}, {up, &down, "Normal"}} {
		if got := eventType(test.now, test.before); got != test.want {
			t.Errorf("%s after %v: %s, want %s", test.now.Status, test.before, got, test.want)
		}
	}
}
