// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
)

const percents = 100

// labelLeaderWorkerSet is on each pod of a LeaderWorkerSet, several of which may be one engine.
const labelLeaderWorkerSet = "leaderworkerset.sigs.k8s.io/name"

// drawHoldout returns the group of a new pod, "" where the cluster holds no pods out. share is a percentage, such as 10%, and drawn
// a number below 100.
func drawHoldout(share string, drawn int) string {
	percent, err := strconv.Atoi(strings.TrimSuffix(share, "%"))
	switch {
	case err != nil || percent <= 0:
		return ""
	case drawn < percent:
		return names.HoldoutTrue
	default:
		return names.HoldoutFalse
	}
}

// holdoutOf returns the group of a pod. Its annotation counts first: the user's, or that of an earlier call of the webhook for the
// same pod. A pod that may be a part of an engine is in no group unless its user says so: half an engine cannot be held out.
func holdoutOf(pod *corev1.Pod, facts Facts) string {
	if named := pod.Annotations[names.AnnotationHoldout]; named == names.HoldoutTrue || named == names.HoldoutFalse {
		return named
	}
	if _, part := pod.Labels[labelLeaderWorkerSet]; part || slices.ContainsFunc(pod.Spec.Containers, spansPods) {
		return ""
	}
	return facts.Holdout
}

// spansPods is true for a container whose engine may have ranks in other pods.
func spansPods(c corev1.Container) bool {
	return slices.ContainsFunc(engines.ContainerArgv(&c).Words, func(word string) bool {
		return strings.Contains(word, "nnodes") || word == "-n"
	})
}
