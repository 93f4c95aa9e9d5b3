// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inplace"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/slim"
)

// notReadyTimeout is how long a running node may be not ready before that counts as a fault.
const notReadyTimeout = time.Minute

// unpreparedTimeout is how long a kubelet may take for the volumes and networks of a node before that counts as a fault.
const unpreparedTimeout = 2 * time.Minute

// restartTimeout is how long a kubelet may take to pull an image and to restart a node with it.
const restartTimeout = 10 * time.Minute

// deletionTimeout is how long a kubelet may take, after the time that the pod has to end, to remove a pod.
const deletionTimeout = 5 * time.Minute

// ownContainers are the containers that the operator writes; a user may have added others.
var ownContainers = []string{plan.ContainerName, plan.SocketDirectoryName, plan.PoolFolderName, plan.DiskFoldersName, plan.ComponentPoolFile}

// fault is a reason why members do not serve that does not go away by waiting.
type fault struct {
	of      string // "pod a"
	reason  string
	text    string
	members int32 // that it keeps from serving
}

func (f fault) String() string { return f.of + ": " + f.text }

// faultsOf finds the faults of all pods, sorted by pod.
func faultsOf(pods []corev1.Pod, groups []plan.Group, now time.Time) []fault {
	var faults []fault
	for i := range pods {
		pod := &pods[i]
		f := faultOf(pod, groups, now)
		if !pod.DeletionTimestamp.IsZero() {
			f = leavingFault(pod, now)
		}
		if f != nil {
			f.of, f.members = "pod "+pod.Name, 1
			faults = append(faults, *f)
		}
	}
	slices.SortFunc(faults, func(a, b fault) int { return cmp.Compare(a.of, b.of) })
	return faults
}

// removalFaultsOf finds those of the pods that remove the files of pools. They have nothing to be ready for: one that runs is
// well. One that a kubelet does not admit is replaced at once, and would have the condition come and go.
func removalFaultsOf(pods []corev1.Pod, now time.Time) []fault {
	faults := slices.DeleteFunc(faultsOf(pods, nil, now), func(f fault) bool { return f.reason == "NotReady" || f.rejected() })
	for i := range faults {
		faults[i].text += "; while it does not run, nothing removes the pool's file of spec.memory.hostPath there when the cluster is deleted"
	}
	return faults
}

func faultOf(pod *corev1.Pod, groups []plan.Group, now time.Time) *fault {
	if pod.Status.Phase == corev1.PodFailed {
		return rejectedFault(pod, groups)
	}
	if scheduled := slim.Condition(pod, corev1.PodScheduled); scheduled != nil &&
		scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable {
		return &fault{reason: "Unschedulable", text: unschedulable(scheduled.Message)}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if !slices.Contains(ownContainers, container.Name) || container.State.Waiting == nil {
			continue
		}
		if text := waitingFault(pod, container); text != "" {
			return &fault{reason: container.State.Waiting.Reason, text: text}
		}
	}
	if since := unprepared(pod); !since.IsZero() && now.Sub(since) >= unpreparedTimeout {
		return &fault{reason: "NotPrepared", text: fmt.Sprintf("%s has not had its volumes and networks for more than two minutes: see "+
			"kubectl describe pod -n %s %s; the folders of spec.disk.hostPath and spec.memory.hostPath must be there, on drives and memory that are mounted",
			pod.Spec.NodeName, pod.Namespace, pod.Name)}
	}
	if since := inplace.Awaited(pod); !since.IsZero() && now.Sub(since) >= restartTimeout {
		return &fault{reason: "NotRestarted", text: fmt.Sprintf("it has another image since %s, with which %s has not restarted it, and the update "+
			"waits for it: see kubectl describe pod -n %s %s; to replace it, without its pages, kubectl delete pod -n %s %s", since.UTC().Format(time.RFC3339),
			pod.Spec.NodeName, pod.Namespace, pod.Name, pod.Namespace, pod.Name)}
	}
	ready := slim.Condition(pod, corev1.PodReady)
	if pod.Status.Phase == corev1.PodRunning && ready != nil && ready.Status != corev1.ConditionTrue &&
		now.Sub(ready.LastTransitionTime.Time) >= notReadyTimeout {
		return &fault{reason: "NotReady", text: fmt.Sprintf(
			"it runs on %s but has not been ready for more than a minute: ask /readyz on its HTTP port, see "+
				"kubectl logs, and check that the machine is up", pod.Spec.NodeName)}
	}
	return nil
}

// leavingFault explains a pod that stays although it is deleted: nothing replaces it.
func leavingFault(pod *corev1.Pod, now time.Time) *fault {
	if now.Sub(pod.DeletionTimestamp.Time) < deletionTimeout {
		return nil
	}
	return &fault{reason: "NotDeleted", text: fmt.Sprintf("it was deleted more than five minutes ago, and %s has not removed it, so no other "+
		"member starts there: check that machine's kubelet; if the machine is gone for good, kubectl delete node %s", pod.Spec.NodeName, pod.Spec.NodeName)}
}

// unprepared is since when a kubelet has no volumes or networks for a pod; zero when it has, or no kubelet has the pod.
func unprepared(pod *corev1.Pod) time.Time {
	prepared := slim.Condition(pod, corev1.PodReadyToStartContainers)
	if pod.Status.Phase != corev1.PodPending || prepared == nil || prepared.Status == corev1.ConditionTrue {
		return time.Time{}
	}
	return prepared.LastTransitionTime.Time
}

// aboutVolumes matches what the scheduler says of volumes.
var aboutVolumes = regexp.MustCompile(`(?i)persistent ?volume|volume node affinity|free storage`)

// unschedulable adds a remedy to the message of the scheduler.
func unschedulable(message string) string {
	advice := "lower spec.memory.pool or spec.resources, or choose other machines with spec.nodes"
	switch {
	case strings.Contains(message, corev1.ResourceHugePagesPrefix):
		advice = "reserve huge pages on the machine (vm.nr_hugepages), lower spec.memory.pool, or write hugePages: None"
	case strings.Contains(message, "untolerated taint"):
		advice = "add the taint to spec.nodes.tolerations, or choose other machines with spec.nodes.selector"
	case strings.Contains(message, "anti-affinity"):
		advice = "another member of this group runs there, perhaps one that is about to go; if it stays, the machine matches two " +
			"of spec.nodePools"
	case strings.Contains(message, "free ports"):
		advice = "choose another spec.discovery.port and spec.monitoring.port"
	case strings.Contains(message, "cannot allocate all claims"):
		advice = "no free devices there satisfy the ResourceClaimTemplate: compare it with kubectl get resourceslices -o yaml, " +
			"or take the machine out with spec.nodes.selector"
	case aboutVolumes.MatchString(message):
		advice = "no volume of spec.disk.volumeClaim can be made there: see kubectl describe pvc, and correct storageClassName or size"
	case strings.Contains(message, "device class"):
		advice = "create the DeviceClass, or correct deviceClassName in the ResourceClaimTemplate"
	}
	return fmt.Sprintf("it fits on no machine (%s): %s", strings.TrimSuffix(message, "."), advice)
}

// waitingFault explains why a container waits, if the cause does not go away by itself; "" if it does.
func waitingFault(pod *corev1.Pod, container corev1.ContainerStatus) string {
	waiting := container.State.Waiting
	switch waiting.Reason {
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		return fmt.Sprintf("image %s cannot be pulled: check spec.image and spec.imagePullSecrets (%s)",
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
