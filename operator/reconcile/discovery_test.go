// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestChooseHosts(t *testing.T) {
	tests := []struct {
		name        string
		replicas    int
		pods        []corev1.Pod
		add, remove string
	}{
		{"no pods", 3, nil, "", ""},
		{"all of a few", 3, []corev1.Pod{testPod("a"), testPod("b")}, "a b", ""},
		{"the oldest of many", 2, []corev1.Pod{
			testPod("a", aged(time.Minute)), testPod("b", aged(3*time.Minute)), testPod("c", aged(2*time.Minute)),
		}, "b c", ""},
		{"the name decides between equals", 1, []corev1.Pod{testPod("b"), testPod("a")}, "a", ""},
		{"ready before running", 1, []corev1.Pod{
			testPod("old", aged(2*time.Hour), unreadyFor(time.Second)), testPod("ready"),
		}, "ready", ""},
		{"running when none is ready", 1, []corev1.Pod{testPod("a", unreadyFor(time.Second)), testPod("b", pending)}, "a", ""},
		{"pending never", 3, []corev1.Pod{testPod("a", pending)}, "", ""},
		{"hosts stay", 2, []corev1.Pod{
			testPod("older", aged(2*time.Hour)), testPod("a", hosting), testPod("b", hosting),
		}, "", ""},
		{"a host that restarts stays", 1, []corev1.Pod{
			testPod("a", hosting, unreadyFor(5*time.Second)), testPod("b"),
		}, "", ""},
		{"a host that is lost is replaced", 1, []corev1.Pod{
			testPod("a", hosting, unreadyFor(time.Minute)), testPod("b"),
		}, "b", "a"},
		{"a lost host stays when none is better", 1, []corev1.Pod{
			testPod("a", hosting, unreadyFor(time.Minute)), testPod("b", unreadyFor(time.Minute)),
		}, "", ""},
		{"a host that ends is replaced", 1, []corev1.Pod{testPod("a", hosting, terminating), testPod("b")}, "b", ""},
		{"a host that failed is replaced", 1, []corev1.Pod{
			testPod("a", hosting, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), testPod("b"),
		}, "b", "a"},
		{"surplus hosts lose the label", 1, []corev1.Pod{
			testPod("a", hosting), testPod("b", hosting, aged(2*time.Hour)), testPod("c", hosting),
		}, "", "a c"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			add, remove := chooseHosts(cached(t, test.pods...), test.replicas, noon)
			if got := names(add); got != test.add {
				t.Errorf("adds %q, want %q", got, test.add)
			}
			if got := names(remove); got != test.remove {
				t.Errorf("removes %q, want %q", got, test.remove)
			}
		})
	}
}

func TestChooseHostsIsStable(t *testing.T) {
	pods := []corev1.Pod{testPod("a"), testPod("b"), testPod("c", unreadyFor(time.Minute)), testPod("d")}
	add, _ := chooseHosts(pods, 2, noon)
	for _, pod := range add {
		hosting(pod)
	}
	add, remove := chooseHosts(pods, 2, noon)
	if len(add)+len(remove) != 0 {
		t.Errorf("a second look adds %q and removes %q", names(add), names(remove))
	}
}

func names(pods []*corev1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return strings.Join(list, " ")
}
