// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedule "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// placed has the machines on which the DaemonSets will run.
type placed struct {
	machines []*corev1.Node         // machines with at least one node, sorted by name
	groups   map[*corev1.Node][]int // indexes into Desired.Groups
	count    []int                  // number of machines per group
}

// place decides as the DaemonSet controller does: by selector, affinity and taints, but not by free resources.
func place(desired *plan.Desired, machines []corev1.Node) placed {
	result := placed{groups: map[*corev1.Node][]int{}, count: make([]int, len(desired.Groups))}
	for i, daemonSet := range desired.DaemonSets {
		runsOn := machineFilter(daemonSet)
		for j := range machines {
			machine := &machines[j]
			if !runsOn(machine) {
				continue
			}
			if result.groups[machine] == nil {
				result.machines = append(result.machines, machine)
			}
			result.groups[machine] = append(result.groups[machine], i)
			result.count[i]++
		}
	}
	slices.SortFunc(result.machines, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return result
}

// machineFilter returns whether the DaemonSet's pods belong on a machine.
func machineFilter(daemonSet *appsv1.DaemonSet) func(machine *corev1.Node) bool {
	pod := daemonSet.Spec.Template.Spec
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: pod})
	tolerations := slices.Concat(pod.Tolerations, tolerationsOfDaemons(pod.HostNetwork))
	return func(machine *corev1.Node) bool {
		matches, err := affinity.Match(machine) // an invalid affinity matches nothing, and the API server refuses it
		return err == nil && matches && tolerates(tolerations, machine.Spec.Taints)
	}
}

// Drained returns the drained machines to which the DaemonSet's pods otherwise belong.
func Drained(daemonSet *appsv1.DaemonSet, machines []corev1.Node) []string {
	var names []string
	runsOn := machineFilter(daemonSet)
	for i := range machines {
		if !IsDrained(&machines[i]) || runsOn(&machines[i]) {
			continue
		}
		undrained := machines[i]
		undrained.Labels = maps.Clone(undrained.Labels)
		delete(undrained.Labels, v1alpha1.LabelDrain)
		if runsOn(&undrained) {
			names = append(names, undrained.Name)
		}
	}
	return names
}

// IsDrained is true where nodes of the cache must stay off the machine.
func IsDrained(machine *corev1.Node) bool {
	return machine.Labels[v1alpha1.LabelDrain] == v1alpha1.DrainNow
}

func tolerates(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule &&
			!schedule.TolerationsTolerateTaint(logr.Discard(), tolerations, &taints[i], true) {
			return false
		}
	}
	return true
}

// tolerationsOfDaemons are the tolerations that the DaemonSet controller adds to pods.
func tolerationsOfDaemons(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	list := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		list = append(list, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return list
}

// summarise counts nodes, rails and memory.
func summarise(spec v1alpha1.PeerCacheClusterSpec, desired *plan.Desired, at placed) v1alpha1.PlanStatus {
	status := v1alpha1.PlanStatus{Machines: toInt32(len(at.machines))}
	for i, group := range desired.Groups {
		planned := v1alpha1.PlannedGroup{
			Name: group.FullName(), Machines: toInt32(at.count[i]), Requests: requests(desired.DaemonSets[i]),
		}
		for _, rail := range group.Rails {
			planned.Rails = append(planned.Rails, rail.Name)
		}
		status.Members += planned.Machines
		pool := group.Memory(spec).Pool.DeepCopy()
		pool.Mul(int64(planned.Machines))
		status.Pool.Add(pool)
		status.Groups = append(status.Groups, planned)
	}
	return status
}

// requests is the sum of the requests of all containers of a pod.
func requests(daemonSet *appsv1.DaemonSet) corev1.ResourceList {
	total := corev1.ResourceList{}
	for _, container := range daemonSet.Spec.Template.Spec.Containers {
		add(total, container.Resources.Requests)
	}
	return total
}

func add(total, list corev1.ResourceList) {
	for name, quantity := range list {
		sum := total[name]
		sum.Add(quantity)
		total[name] = sum
	}
}

func toInt32(n int) int32 { return int32(n) } //nolint:gosec // n is a number of machines
