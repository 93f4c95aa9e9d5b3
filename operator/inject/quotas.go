// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	podresources "k8s.io/component-helpers/resource"
)

// explicit are the resources of a quota that each container must state.
var explicit = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU,
	corev1.ResourceLimitsMemory,
}

// quotasRefuse returns what quota refuses the pod.
func quotasRefuse(quotas []corev1.ResourceQuota, pod *corev1.Pod) (obstacle string) {
	u := usageOf(pod)
	for i := range quotas {
		quota := &quotas[i]
		if !inScope(quota, pod, u) {
			continue
		}
		for _, name := range sorted(quota.Status.Hard) {
			if slices.Contains(explicit, name) && !podresources.IsPodLevelResourcesSet(pod) {
				for c := range containersOf(pod) {
					if _, stated := (usage{c.Resources.Requests, c.Resources.Limits}).of(name); !stated {
						return "container " + c.Name + " states no " + string(name) + ", which ResourceQuota " + quota.Name + " counts"
					}
				}
			}
			more, counts := u.of(name)
			hard, used := quota.Status.Hard[name], quota.Status.Used[name]
			sum := used.DeepCopy()
			if sum.Add(more); counts && sum.Cmp(hard) > 0 {
				return "the pod takes " + more.String() + " of " + string(name) + ", and ResourceQuota " + quota.Name + " has " +
					hard.String() + ", of which " + used.String() + " are taken"
			}
		}
	}
	return ""
}

// inScope is true where a quota counts the pod.
func inScope(quota *corev1.ResourceQuota, pod *corev1.Pod, u usage) bool {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, scope := range quota.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if quota.Spec.ScopeSelector != nil {
		scopes = append(scopes, quota.Spec.ScopeSelector.MatchExpressions...)
	}
	terminates := pod.Spec.ActiveDeadlineSeconds != nil
	for _, scope := range scopes {
		in := false // of CrossNamespacePodAffinity: nothing that is added changes what such a quota counts
		switch scope.ScopeName {
		case corev1.ResourceQuotaScopeTerminating:
			in = terminates
		case corev1.ResourceQuotaScopeNotTerminating:
			in = !terminates
		case corev1.ResourceQuotaScopeBestEffort:
			in = u.bestEffort()
		case corev1.ResourceQuotaScopeNotBestEffort:
			in = !u.bestEffort()
		case corev1.ResourceQuotaScopePriorityClass:
			in = selectsPriority(scope, pod.Spec.PriorityClassName)
		}
		if !in {
			return false
		}
	}
	return true
}

func selectsPriority(scope corev1.ScopedResourceSelectorRequirement, class string) bool {
	operators := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	key := string(corev1.ResourceQuotaScopePriorityClass)
	requirement, err := labels.NewRequirement(key, operators[scope.Operator], scope.Values)
	if err != nil {
		return false // the API server stores no such quota
	}
	classes := labels.Set{}
	if class != "" {
		classes[key] = class
	}
	return requirement.Matches(classes)
}
