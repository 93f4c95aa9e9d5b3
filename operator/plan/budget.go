// SPDX-License-Identifier: Apache-2.0

package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

// defaultMaxUnavailable is spec.update.maxUnavailable when left out. The DaemonSet controller rounds it up, so a group of
// any size has at least 1.
const defaultMaxUnavailable = "10%"

// AllowForLost lets updates go on past members on machines that do not answer. The DaemonSet controller counts such a
// member as unavailable for as long as the machine is away, so one dead machine would use up a budget of 1 and stop the
// update for good. Each lost member raises its group's budget by 1, by no more than the budget itself: at most twice the
// budget is away, and an outage of many machines still stops an update.
func (d *Desired) AllowForLost(live map[string]*appsv1.DaemonSet, pods []corev1.Pod, machines []corev1.Node) {
	lost := lostMembers(pods, machines)
	for _, daemonSet := range d.DaemonSets {
		rolling, stored := daemonSet.Spec.UpdateStrategy.RollingUpdate, live[daemonSet.Name]
		if rolling == nil || stored == nil || lost[daemonSet.Name] == 0 || stored.Status.DesiredNumberScheduled == 0 {
			continue
		}
		away := allowed(rolling.MaxUnavailable, stored, lost[daemonSet.Name])
		rolling.MaxUnavailable = new(intstr.FromInt32(int32(away))) //nolint:gosec // at most twice the machines
	}
}

// Allowed is how many pods of a DaemonSet may be away at a time, of which those on lost machines are some.
func Allowed(spec v1alpha1.UpdateSpec, daemonSet *appsv1.DaemonSet, pods []corev1.Pod, machines []corev1.Node) int {
	away := maxUnavailable(spec)
	return allowed(&away, daemonSet, lostMembers(pods, machines)[daemonSet.Name])
}

func allowed(away *intstr.IntOrString, daemonSet *appsv1.DaemonSet, lost int) int {
	budget, err := intstr.GetScaledValueFromIntOrPercent(away, int(daemonSet.Status.DesiredNumberScheduled), true)
	if err != nil || budget < 1 {
		return 1 // no machine is chosen; the API server has checked the value
	}
	return budget + min(lost, budget)
}

func maxUnavailable(spec v1alpha1.UpdateSpec) intstr.IntOrString {
	if spec.MaxUnavailable != nil {
		return *spec.MaxUnavailable
	}
	return intstr.FromString(defaultMaxUnavailable)
}

// lostMembers counts the members on lost machines, by the name of their DaemonSet. A member that is being replaced there
// has two pods and counts once.
func lostMembers(pods []corev1.Pod, machines []corev1.Node) map[string]int {
	lost := map[string]bool{}
	for i := range machines {
		if isLost(&machines[i]) {
			lost[machines[i].Name] = true
		}
	}
	type member struct{ daemonSet, machine string }
	seen, count := map[member]bool{}, map[string]int{}
	for i := range pods {
		owner := metav1.GetControllerOf(&pods[i])
		if owner == nil || !lost[pods[i].Spec.NodeName] {
			continue
		}
		if m := (member{owner.Name, pods[i].Spec.NodeName}); !seen[m] {
			seen[m] = true
			count[m.daemonSet]++
		}
	}
	return count
}

// isLost reads the taints with which Kubernetes marks a machine whose condition Ready is False or Unknown.
func isLost(machine *corev1.Node) bool {
	for _, taint := range machine.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return true
		}
	}
	return false
}
