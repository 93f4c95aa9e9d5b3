// SPDX-License-Identifier: Apache-2.0

package status

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

// A pod that a kubelet rejects at admission has failed for good. The DaemonSet controller replaces it with a backoff
// for each machine: after 1 s, 2 s and so on, up to 15 minutes. The failed pod stays visible until it is replaced.

const (
	// topologyError is the reason of pods that the kubelet's topology manager does not admit.
	topologyError = "TopologyAffinityError"

	reasonMisaligned = "NUMAMisaligned"
	reasonPodFailed  = "PodFailed"

	// admissionTimeout is how long a kubelet may take to admit or reject a pod.
	admissionTimeout = 10 * time.Second
	// rejectionTTL is how long conditions about rejected pods are kept while no rejected pod is visible: until the
	// replacement is created and admitted or rejected. It is bounded, because no replacement may ever be created.
	rejectionTTL = 3 * admissionTimeout
)

// rejectedFault explains a pod that has failed.
func rejectedFault(pod *corev1.Pod, groups []plan.Group) *fault {
	if pod.Status.Reason == topologyError {
		return &fault{reason: reasonMisaligned, text: misaligned(pod, groups)}
	}
	return &fault{
		reason: reasonPodFailed,
		text: fmt.Sprintf("it failed on %s (%s: %s) and is being replaced; if that repeats, give the machine what "+
			"it lacks or lower spec.resources", pod.Spec.NodeName, pod.Status.Reason, pod.Status.Message),
	}
}

// misaligned adds a remedy to the message of the kubelet's topology manager. The manager aligns the devices of device
// plug-ins only, so devices of several rails may be on different NUMA nodes.
func misaligned(pod *corev1.Pod, groups []plan.Group) string {
	const fit = "lower resources.cpu or memory.pool so that they fit"
	advice := fit
	if rails := devicesOf(pod, groups); len(rails) > 1 {
		advice = fmt.Sprintf("if %s are on different NUMA nodes, run one member per NUMA node: set the right rails[].numaNode "+
			"(layout: PerNUMA) or a rails[].group for each NUMA node (other layouts); otherwise %s",
			strings.Join(rails, " and "), fit)
	}
	return fmt.Sprintf("the topology manager of %s finds no NUMA node with the cores, huge pages and devices of this pod together "+
		"(%s): %s; or write topologyManagerPolicy: best-effort in that kubelet's configuration and delete the pod",
		pod.Spec.NodeName, pod.Status.Message, advice)
}

// devicesOf names those rails of the pod's group whose devices a device plug-in allocates.
func devicesOf(pod *corev1.Pod, groups []plan.Group) (rails []string) {
	for _, group := range groups {
		if pod.Labels[v1alpha1.LabelGroup] != group.Name || group.Pool != nil && pod.Labels[v1alpha1.LabelPool] != group.Pool.Name {
			continue
		}
		for _, rail := range group.Rails {
			if rail.ResourceName() != "" {
				rails = append(rails, rail.Name)
			}
		}
	}
	return rails
}

// keptConditions names the conditions that keep their values while kubelets have not yet admitted or rejected the
// replacements of rejected pods. Otherwise every retry would look like a node that is well and then breaks.
// lastRejected is when a rejected pod was last seen.
func keptConditions(cluster *v1alpha1.PeerCacheCluster, pods []corev1.Pod, faults []fault, desired int32, lastRejected, now time.Time) []string {
	others := slices.ContainsFunc(faults, func(f fault) bool { return !f.rejected() })
	if others || now.Sub(lastRejected) >= rejectionTTL || !awaitingReplacement(cluster, pods, desired, now) {
		return nil
	}
	if len(faults) > 0 { // on other machines; Degraded and Ready describe these
		return []string{v1alpha1.ConditionProgressing}
	}
	return []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionReady, v1alpha1.ConditionProgressing}
}

func (f fault) rejected() bool { return isRejection(f.reason) }

func isRejection(reason string) bool { return reason == reasonMisaligned || reason == reasonPodFailed }

// awaitingReplacement says whether pods were rejected, and a replacement is missing or neither admitted nor rejected.
func awaitingReplacement(cluster *v1alpha1.PeerCacheCluster, pods []corev1.Pod, desired int32, now time.Time) bool {
	degraded := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.ObservedGeneration != cluster.Generation ||
		!isRejection(degraded.Reason) {
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
		if unanswered && now.Sub(pod.CreationTimestamp.Time) < admissionTimeout {
			return true
		}
	}
	return there < desired
}
