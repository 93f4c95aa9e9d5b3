// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"

	"github.com/peercache/peercache/operator/inject/reasons"
)

// noRoom returns why the API server would refuse a pod with what is added, though not without it. It does what the validation of
// pods and the admission plug-ins LimitRanger and ResourceQuota do.
func (a Admission) noRoom(before, after *corev1.Pod) (reason string) {
	if obstacle := a.refuses(after); obstacle != "" && a.refuses(before) == "" {
		return reasons.NoRoom(obstacle)
	}
	return ""
}

func (a Admission) refuses(pod *corev1.Pod) (obstacle string) {
	pod = a.withDefaults(pod)
	return cmp.Or(podLevel(pod), limitsRefuse(a.Limits, pod), quotasRefuse(a.Quotas, pod))
}

// withDefaults is the pod with what LimitRanger adds to containers.
func (a Admission) withDefaults(pod *corev1.Pod) *corev1.Pod {
	copied := false
	for _, item := range a.Limits {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		if !copied {
			pod, copied = pod.DeepCopy(), true
		}
		for c := range containersOf(pod) {
			c.Resources.Limits = withMissing(c.Resources.Limits, item.Default)
			c.Resources.Requests = withMissing(c.Resources.Requests, item.DefaultRequest)
		}
	}
	return pod
}

func withMissing(list, defaults corev1.ResourceList) corev1.ResourceList {
	if len(defaults) == 0 {
		return list
	}
	all := maps.Clone(defaults)
	maps.Copy(all, list)
	return all
}

// containersOf yields the containers of a pod and its init containers.
func containersOf(pod *corev1.Pod) func(func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// usage is what a pod takes of its namespace.
type usage struct{ requests, limits corev1.ResourceList }

func usageOf(pod *corev1.Pod) usage {
	options := podresources.PodResourcesOptions{}
	return usage{podresources.PodRequests(pod, options), podresources.PodLimits(pod, options)}
}

// bestEffort is true where the pod takes neither cores nor memory.
func (u usage) bestEffort() bool {
	for _, list := range []corev1.ResourceList{u.requests, u.limits} {
		if !list.Cpu().IsZero() || !list.Memory().IsZero() {
			return false
		}
	}
	return true
}

// of is the amount that counts against a resource of a quota.
func (u usage) of(name corev1.ResourceName) (amount resource.Quantity, counts bool) {
	if limit, ok := strings.CutPrefix(string(name), "limits."); ok {
		amount, counts = u.limits[corev1.ResourceName(limit)]
		return amount, counts
	}
	if name == corev1.ResourcePods || name == "count/pods" {
		return *resource.NewQuantity(1, resource.DecimalSI), true
	}
	amount, counts = u.requests[corev1.ResourceName(strings.TrimPrefix(string(name), "requests."))]
	return amount, counts
}

// podLevel returns how the pod's containers exceed the resources of the pod itself.
func podLevel(pod *corev1.Pod) (obstacle string) {
	own := pod.Spec.Resources
	if own == nil {
		return ""
	}
	if obstacle := exceeds("its containers request", podresources.AggregateContainerRequests(pod, podresources.PodResourcesOptions{}), own.Requests); obstacle != "" {
		return obstacle
	}
	together := podresources.AggregateContainerLimits(pod, podresources.PodResourcesOptions{})
	maps.DeleteFunc(together, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
	})
	if obstacle := exceeds("its containers take", together, own.Limits); obstacle != "" {
		return obstacle
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; obstacle == "" {
			obstacle = exceeds("container "+c.Name+" takes", c.Resources.Limits, own.Limits)
		}
	}
	return obstacle
}

func exceeds(what string, list, most corev1.ResourceList) (obstacle string) {
	for _, name := range sorted(list) {
		have := list[name]
		if limit, ok := most[name]; ok && have.Cmp(limit) > 0 {
			return what + " " + have.String() + " of " + string(name) + ", and the pod has " + limit.String() + " (spec.resources)"
		}
	}
	return ""
}

func sorted(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }

// limitsRefuse returns what in the LimitRanges refuses the pod.
func limitsRefuse(items []corev1.LimitRangeItem, pod *corev1.Pod) (obstacle string) {
	// LimitRanger does not count the overhead of a RuntimeClass.
	options := podresources.PodResourcesOptions{ExcludeOverhead: true}
	for _, item := range items {
		switch item.Type {
		case corev1.LimitTypePod:
			obstacle = limitRefuses(item, "the pod", podresources.PodRequests(pod, options), podresources.PodLimits(pod, options))
		case corev1.LimitTypeContainer:
			for c := range containersOf(pod) {
				if obstacle == "" {
					obstacle = limitRefuses(item, "container "+c.Name, c.Resources.Requests, c.Resources.Limits)
				}
			}
		}
		if obstacle != "" {
			return obstacle
		}
	}
	return ""
}

func limitRefuses(item corev1.LimitRangeItem, what string, requests, limits corev1.ResourceList) (obstacle string) {
	refused := func(bound string, name corev1.ResourceName, value resource.Quantity) string {
		show := func(list corev1.ResourceList) string {
			if have, ok := list[name]; ok {
				return have.String()
			}
			return "none"
		}
		return what + " has request " + show(requests) + " and limit " + show(limits) + " of " + string(name) +
			", and a LimitRange has " + bound + " " + value.String()
	}
	for _, name := range sorted(item.Min) {
		least := item.Min[name]
		request, requested := requests[name]
		if limit, limited := limits[name]; !requested || request.Cmp(least) < 0 || limited && limit.Cmp(least) < 0 {
			return refused("min", name, least)
		}
	}
	for _, name := range sorted(item.Max) {
		most := item.Max[name]
		request := requests[name]
		if limit, limited := limits[name]; !limited || limit.Cmp(most) > 0 || request.Cmp(most) > 0 {
			return refused("max", name, most)
		}
	}
	for _, name := range sorted(item.MaxLimitRequestRatio) {
		ratio := item.MaxLimitRequestRatio[name]
		request, limit := requests[name], limits[name]
		if request.IsZero() || limit.IsZero() || limit.AsApproximateFloat64() > request.AsApproximateFloat64()*ratio.AsApproximateFloat64() {
			return refused("maxLimitRequestRatio", name, ratio)
		}
	}
	return ""
}
