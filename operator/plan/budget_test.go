// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestLostMachinesDoNotStopAnUpdate(t *testing.T) {
	machine := func(name string, taints ...string) corev1.Node {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, taint := range taints {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoExecute})
		}
		return node
	}
	machines := []corev1.Node{
		machine("well"), machine("cordoned", corev1.TaintNodeUnschedulable), machine("down", corev1.TaintNodeNotReady),
		machine("silent", corev1.TaintNodeUnreachable), machine("silent-too", corev1.TaintNodeUnreachable),
	}
	pod := func(daemonSet, machine string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{Kind: "DaemonSet", Name: daemonSet, Controller: new(true)}}}, Spec: corev1.PodSpec{NodeName: machine}}
	}
	const own = "demo-default"
	rolling := v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling}
	for name, test := range map[string]struct {
		update  v1alpha1.UpdateSpec
		desired int32
		pods    []corev1.Pod
		want    string
	}{
		"nothing is lost":           {rolling, 3, []corev1.Pod{pod(own, "well"), pod(own, "cordoned")}, "10%"},
		"one of three":              {rolling, 3, []corev1.Pod{pod(own, "well"), pod(own, "down")}, "2"},
		"two of three":              {rolling, 3, []corev1.Pod{pod(own, "down"), pod(own, "silent")}, "2"},
		"three of a hundred":        {rolling, 100, []corev1.Pod{pod(own, "down"), pod(own, "silent"), pod(own, "silent-too")}, "13"},
		"two pods of one member":    {rolling, 100, []corev1.Pod{pod(own, "down"), pod(own, "down")}, "11"},
		"a member of another group": {rolling, 3, []corev1.Pod{pod("demo-other", "down")}, "10%"},
		"a budget in members":       {v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling, MaxUnavailable: new(intstr.FromInt32(2))}, 9, []corev1.Pod{pod(own, "down")}, "3"},
		"by hand":                   {v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateOnDelete}, 3, []corev1.Pod{pod(own, "down")}, "OnDelete"},
		"no machine is chosen":      {rolling, 0, []corev1.Pod{pod(own, "down")}, "10%"},
	} {
		cluster := testCluster()
		cluster.Spec.Update = test.update
		desired := mustPlan(t, cluster)
		live := &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: test.desired}}
		desired.AllowForLost(map[string]*appsv1.DaemonSet{own: live}, test.pods, machines)
		strategy := desired.DaemonSets[0].Spec.UpdateStrategy
		got := string(strategy.Type)
		if strategy.RollingUpdate != nil {
			got = strategy.RollingUpdate.MaxUnavailable.String()
		}
		if got != test.want {
			t.Errorf("%s: the budget is %s, want %s", name, got, test.want)
		}
	}
}
