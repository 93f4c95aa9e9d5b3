// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/plan"
)

// stuckAfter is how long a started node may be not ready before that is a fault and not a phase.
const stuckAfter = time.Minute

// fault is what keeps one node from serving and does not go away by waiting.
type fault struct {
	pod    string
	reason string
	text   string
}

func (f fault) String() string { return fmt.Sprintf("pod %s: %s", f.pod, f.text) }

// findFaults looks for them, sorted by pod.
func findFaults(pods []corev1.Pod, groups []plan.Group, now time.Time) []fault {
	var faults []fault
	for i := range pods {
		pod := &pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if f := faultOf(pod, groups, now); f != nil {
			f.pod = pod.Name
			faults = append(faults, *f)
		}
	}
	slices.SortFunc(faults, func(a, b fault) int { return cmp.Compare(a.pod, b.pod) })
	return faults
}

func faultOf(pod *corev1.Pod, groups []plan.Group, now time.Time) *fault {
	if pod.Status.Phase == corev1.PodFailed {
		return refusal(pod, groups)
	}
	if scheduled := condition(pod, corev1.PodScheduled); scheduled != nil &&
		scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable {
		return &fault{reason: "Unschedulable", text: unschedulable(scheduled.Message)}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		ours := container.Name == plan.ContainerName || container.Name == plan.SocketDirectoryName
		if !ours || container.State.Waiting == nil {
			continue
		}
		if text := waitingFault(pod, container); text != "" {
			return &fault{reason: container.State.Waiting.Reason, text: text}
		}
	}
	ready := condition(pod, corev1.PodReady)
	if pod.Status.Phase == corev1.PodRunning && ready != nil && ready.Status != corev1.ConditionTrue &&
		now.Sub(ready.LastTransitionTime.Time) >= stuckAfter {
		return &fault{reason: "NotReady", text: fmt.Sprintf(
			"it runs on %s but has not been ready for more than a minute: ask /readyz on its HTTP port, see "+
				"kubectl logs, and check that the machine is up", pod.Spec.NodeName)}
	}
	return nil
}

// unschedulable adds what to do to what the scheduler says.
func unschedulable(message string) string {
	advice := "lower spec.memory.pool or spec.resources, or choose other machines with spec.nodes"
	switch {
	case strings.Contains(message, corev1.ResourceHugePagesPrefix):
		advice = "reserve huge pages on the machine (vm.nr_hugepages), lower spec.memory.pool, or write hugePages: None"
	case strings.Contains(message, "untolerated taint"):
		advice = "add the taint to spec.nodes.tolerations, or choose other machines with spec.nodes.selector"
	case strings.Contains(message, "anti-affinity"):
		advice = "another node of this group runs there, perhaps one that is about to go; if it stays, the machine matches two " +
			"of spec.nodePools"
	case strings.Contains(message, "free ports"):
		advice = "choose another spec.discovery.port and spec.monitoring.port"
	case strings.Contains(message, "cannot allocate all claims"):
		advice = "no free devices there satisfy the ResourceClaimTemplate: compare it with kubectl get resourceslices -o yaml, " +
			"or take the machine out with spec.nodes.selector"
	case strings.Contains(message, "device class"):
		advice = "create the DeviceClass, or correct deviceClassName in the ResourceClaimTemplate"
	}
	return fmt.Sprintf("it fits on no machine (%s): %s", strings.TrimSuffix(message, "."), advice)
}

// waitingFault explains a container that waits for something that will not come by itself.
func waitingFault(pod *corev1.Pod, container corev1.ContainerStatus) string {
	waiting := container.State.Waiting
	switch waiting.Reason {
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		return fmt.Sprintf("image %s cannot be had: check spec.image and spec.imagePullSecrets (%s)",
			container.Image, waiting.Message)
	case "CrashLoopBackOff":
		exit := ""
		if last := container.LastTerminationState.Terminated; last != nil {
			exit = fmt.Sprintf(", last exit code %d (%s)", last.ExitCode, last.Reason)
		}
		return fmt.Sprintf("it exits again and again%s: see kubectl logs --previous -n %s %s -c %s",
			exit, pod.Namespace, pod.Name, container.Name)
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return fmt.Sprintf("the container runtime of %s cannot start it: %s", pod.Spec.NodeName, waiting.Message)
	default:
		return ""
	}
}
