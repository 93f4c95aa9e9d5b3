// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// Pods that the kubelet does not take have failed for good. The DaemonSet controller replaces them, on each machine ever
// more rarely: after 1 s, 2 s and so on to 15 minutes. Until then the one that failed is there to be seen.

const (
	// topologyError is the reason of pods that the kubelet's topology manager does not admit.
	topologyError = "TopologyAffinityError"

	reasonMisaligned = "NUMAMisaligned"
	reasonPodFailed  = "PodFailed"

	// answerWithin is how long a kubelet may take to say whether it takes a pod.
	answerWithin = 10 * time.Second
	// refusedStands is how long what was said of refused pods stands once none is to be seen: until the next is made and
	// answered for. No longer, since the next may never be made.
	refusedStands = 3 * answerWithin
)

// refusal explains a pod that has failed.
func refusal(pod *corev1.Pod, groups []plan.Group) *fault {
	if pod.Status.Reason == topologyError {
		return &fault{reason: reasonMisaligned, text: misaligned(pod, groups)}
	}
	return &fault{
		reason: reasonPodFailed,
		text: fmt.Sprintf("it failed on %s (%s: %s) and is being replaced; if that repeats, give the machine what "+
			"it lacks or lower spec.resources", pod.Spec.NodeName, pod.Status.Reason, pod.Status.Message),
	}
}

// misaligned adds what to do to what the kubelet's topology manager says. Of devices it aligns what device plug-ins hand
// out, so those of several rails are what it may have found on different NUMA nodes.
func misaligned(pod *corev1.Pod, groups []plan.Group) string {
	const fit = "lower resources.cpu or memory.pool so that they fit"
	advice := fit
	if rails := devicesOf(pod, groups); len(rails) > 1 {
		advice = fmt.Sprintf("where %s are on different NUMA nodes, give each NUMA node a node of its own: under layout: PerNUMA by the "+
			"right rails[].numaNode, under another layout, which cannot be changed, by a rails[].group for each NUMA node; else %s",
			strings.Join(rails, " and "), fit)
	}
	return fmt.Sprintf("the topology manager of %s finds no NUMA node with the cores, huge pages and devices of this pod together "+
		"(%s): %s; or write topologyManagerPolicy: best-effort in that kubelet's configuration and delete the pod",
		pod.Spec.NodeName, pod.Status.Message, advice)
}

// devicesOf names the rails of the pod's group whose devices a device plug-in hands out.
func devicesOf(pod *corev1.Pod, groups []plan.Group) (rails []string) {
	for _, group := range groups {
		if pod.Labels[v1alpha1.LabelGroup] != group.Name || group.Pool != nil && pod.Labels[v1alpha1.LabelPool] != group.Pool.Name {
			continue
		}
		for _, rail := range group.Rails {
			if rail.ResourceName != "" {
				rails = append(rails, rail.Name)
			}
		}
	}
	return rails
}

// undecided names the conditions about which nothing new can be said, since pods were refused and the kubelets have not
// answered yet for those in their place. What was said stands: else every attempt would look like a node that is well and
// then breaks. lastRefused is when a refused pod was last seen.
func undecided(cluster *v1alpha1.PeerCacheCluster, pods []corev1.Pod, faults []fault, desired int32, lastRefused, now time.Time) []string {
	others := slices.ContainsFunc(faults, func(f fault) bool { return !f.refused() })
	if others || now.Sub(lastRefused) >= refusedStands || !retried(cluster, pods, desired, now) {
		return nil
	}
	if len(faults) > 0 { // of other machines: they say what is broken
		return []string{v1alpha1.ConditionProgressing}
	}
	return []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionReady, v1alpha1.ConditionProgressing}
}

func (f fault) refused() bool { return ofRefusal(f.reason) }

func ofRefusal(reason string) bool { return reason == reasonMisaligned || reason == reasonPodFailed }

// retried says whether pods were refused, and one in their place is missing or unanswered.
func retried(cluster *v1alpha1.PeerCacheCluster, pods []corev1.Pod, desired int32, now time.Time) bool {
	degraded := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.ObservedGeneration != cluster.Generation ||
		!ofRefusal(degraded.Reason) {
		return false
	}
	there := int32(0)
	for i := range pods {
		pod := &pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		there++
		unanswered := pod.Status.Phase == corev1.PodPending && len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) == 0
		if unanswered && now.Sub(pod.CreationTimestamp.Time) < answerWithin {
			return true
		}
	}
	return there < desired
}
