// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
)

// Refusal is a DaemonSet of which the API server admits no pod.
type Refusal struct {
	DaemonSet, Namespace string
	// Missing is how many of its pods there are not.
	Missing int32
	// Message is what the API server answered.
	Message string
}

const reasonPodsRefused = "PodsRefused"

// advices are remedies for what the API server answers, the first that fits.
var advices = []struct{ contains, advice string }{
	{"violates PodSecurity", "members need the host's folders: put the cluster into a namespace of its own, and label that with " +
		"kubectl label namespace %[1]s pod-security.kubernetes.io/enforce=privileged"},
	{"security context constraint", "members need the host's folders: let their service account in namespace %[1]s use a " +
		"SecurityContextConstraint that allows them"},
	{"exceeded quota", "raise the ResourceQuota of namespace %[1]s, or lower spec.memory.pool and spec.resources"},
	{"failed quota", "raise the ResourceQuota of namespace %[1]s, or have it name what members request"},
	{"usage per ", "raise the LimitRange of namespace %[1]s, or change spec.memory.pool and spec.resources to fit"},
	{"PriorityClass", "create the PriorityClass, or correct spec.podTemplate"},
	{"admission webhook", "have that webhook leave out the pods of namespace %[1]s"},
	{"ValidatingAdmissionPolicy", "have that policy leave out the pods of namespace %[1]s"},
}

func (r Refusal) fault() fault {
	advice := "see kubectl describe daemonset -n %[1]s " + r.DaemonSet
	for _, known := range advices {
		if strings.Contains(r.Message, known.contains) {
			advice = known.advice
			break
		}
	}
	return fault{
		of: "DaemonSet " + r.DaemonSet, reason: reasonPodsRefused, members: r.Missing,
		text: fmt.Sprintf("the API server refuses its pods, of which %d are missing (%s): ", r.Missing, strings.TrimSuffix(r.Message, ".")) +
			fmt.Sprintf(advice, r.Namespace),
	}
}

func refusalFaults(refusals []Refusal) []fault {
	faults := make([]fault, len(refusals))
	for i, refusal := range refusals {
		faults[i] = refusal.fault()
	}
	return faults
}
