// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/discovery"
	"github.com/peercache/peercache/operator/slim"
)

// available says whether the cache serves: every group that machines run has a ready member, because an SGLang pod may use
// any group, and a discovery host is ready, because members find each other there. It depends neither on the spec being
// accepted nor on all members being ready: in a large cluster some machine is always broken.
func available(in conditionInputs) metav1.Condition {
	const kind = v1alpha1.ConditionAvailable
	var serving int
	var silent []string
	for _, group := range in.progress.groups {
		switch {
		case group.Ready > 0:
			serving++
		case group.Desired > 0:
			silent = append(silent, fmt.Sprintf("%s: 0/%d", group.Name, group.Desired))
		}
	}
	switch {
	case in.progress.desired == 0 && in.problem != nil:
		return newCondition(kind, metav1.ConditionFalse, "ConfigNotAccepted", in.problem.Message)
	case in.progress.desired == 0 && in.planned != nil:
		return newCondition(kind, metav1.ConditionFalse, ReasonPlanOnly, "nothing runs: write mode: Apply to start the members")
	case in.progress.desired == 0:
		return newCondition(kind, metav1.ConditionFalse, "NoMembers", "no machine runs a member: see condition Ready")
	case len(silent) > 0:
		return newCondition(kind, metav1.ConditionFalse, "GroupsDown", fmt.Sprintf("these groups have no ready member, so SGLang "+
			"pods that use them miss: %s; conditions Degraded and Progressing name the cause", joinNames(silent, len(silent))))
	case !in.discovery:
		return newCondition(kind, metav1.ConditionFalse, "DiscoveryDown", fmt.Sprintf("no discovery host is ready, so members "+
			"cannot join: see the pods with the label %s=%s; a ready member takes their place within %s",
			v1alpha1.LabelDiscovery, v1alpha1.DiscoveryHost, discovery.LostAfter))
	default:
		return newCondition(kind, metav1.ConditionTrue, "Serving", fmt.Sprintf("each of %d groups has a ready member", serving))
	}
}

// discoveryReady says whether a ready pod hosts discovery.
func discoveryReady(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return discovery.IsHost(&pod) && discovery.CanHost(&pod) && slim.Ready(&pod)
	})
}
