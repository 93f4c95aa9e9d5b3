// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/podtest"
)

var (
	noon        = podtest.Noon
	testPod     = podtest.Pod
	hosting     = podtest.Hosting
	terminating = podtest.Terminating
	aged        = podtest.Aged
	unreadyFor  = podtest.UnreadyFor
	pending     = podtest.Pending
	waiting     = podtest.Waiting
	cached      = podtest.Cached
)

// conditionReason matches what the API accepts as the reason of a condition.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// unpreparedFor leaves a pod without volumes or networks.
func unpreparedFor(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pending(pod)
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
		})
	}
}

// restartingSince is the label of a pod whose image was patched.
func restartingSince(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels[v1alpha1.LabelRestarting] = fmt.Sprintf("2.%d", noon.Add(-ago).Unix())
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: plan.ContainerName, RestartCount: 2}}
	}
}

func TestFaults(t *testing.T) {
	unscheduled := func(message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pending(pod)
			pod.Status.ContainerStatuses = nil
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable, Message: message,
			}}
		}
	}
	refused := func(group string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Labels[v1alpha1.LabelGroup] = group
			pod.Labels[v1alpha1.LabelPool] = "gpu"
			pod.Status.Phase = corev1.PodFailed
			pod.Status.Reason = "TopologyAffinityError"
			pod.Status.Message = "Resources cannot be allocated with Topology locality"
		}
	}
	rail := func(name string) v1alpha1.Rail {
		return v1alpha1.Rail{Name: name, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: v1alpha1.ExtendedResource("nvidia.com/" + name)}}
	}
	gpu := &v1alpha1.NodePool{Name: "gpu"}
	groups := []plan.Group{
		{Name: "all", Rails: []v1alpha1.Rail{rail("rail0"), rail("rail1")}, Pool: gpu},
		{Name: "one", Rails: []v1alpha1.Rail{rail("rail0"), {Name: "rail1"}}, Pool: gpu},
		{Name: "one", Rails: []v1alpha1.Rail{rail("rail2"), rail("rail3")}, Pool: &v1alpha1.NodePool{Name: "disk"}},
	}
	tests := []struct {
		name         string
		pod          corev1.Pod
		reason, says string
	}{
		{"well", testPod("a"), "", ""},
		{"just started", testPod("a", unreadyFor(time.Second)), "", ""},
		{"being created", testPod("a", pending, waiting("ContainerCreating", "")), "", ""},
		{"waiting for its volumes", testPod("a", unpreparedFor(time.Minute)), "", ""},
		{"without a folder of its disk", testPod("a", unpreparedFor(2*time.Minute)), "NotPrepared",
			"machine-1 has not had its volumes and networks for more than two minutes: see kubectl describe pod -n inference a; the folders of"},
		{"pulling a large image", testPod("a", unpreparedFor(time.Hour), func(pod *corev1.Pod) {
			pod.Status.Conditions[len(pod.Status.Conditions)-1].Status = corev1.ConditionTrue
		}), "", ""},
		{"on its way out", testPod("a", terminating, unreadyFor(time.Hour)), "", ""},
		{"gone for good, with its machine's kubelet", testPod("a", func(pod *corev1.Pod) {
			pod.DeletionTimestamp = new(metav1.NewTime(noon.Add(-5 * time.Minute)))
		}), "NotDeleted", "machine-1 has not removed it"},
		{"restarting with another image", testPod("a", restartingSince(9*time.Minute)), "", ""},
		{"never restarted with another image", testPod("a", restartingSince(10*time.Minute)), "NotRestarted",
			"it has another image since 2025-06-01T11:50:00Z, with which machine-1 has not restarted it"},
		{"restarted, and not yet ready", testPod("a", restartingSince(time.Hour), func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: plan.ContainerName, RestartCount: 3}}
		}), "", ""},
		{"not ready for long", testPod("a", unreadyFor(2*time.Minute)), "NotReady", "machine-1"},
		{"no image", testPod("a", pending, waiting("ImagePullBackOff", "not found")), "ImagePullBackOff", "spec.image"},
		{"no image, which the init container hears first", testPod("a", pending, waiting("PodInitializing", ""), func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "socket-directory", Image: "x", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
		}), "ErrImagePull", "spec.image"},
		{"crash loop", testPod("a", waiting("CrashLoopBackOff", ""), func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated =
				&corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
		}), "CrashLoopBackOff", "exit code 137 (OOMKilled): see kubectl logs --previous -n inference a -c peercached"},
		{"bad configuration", testPod("a", pending, waiting("CreateContainerConfigError", `configmap "x" not found`)),
			"CreateContainerConfigError", `configmap "x" not found`},
		{"no room", testPod("a", unscheduled("0/3 members are available: 3 Insufficient memory.")),
			"Unschedulable", "lower spec.memory.pool"},
		{"no huge pages", testPod("a", unscheduled("1 Insufficient hugepages-2Mi.")), "Unschedulable", "vm.nr_hugepages"},
		{"a taint", testPod("a", unscheduled("1 member(s) had untolerated taint {x: y}.")),
			"Unschedulable", "spec.nodes.tolerations"},
		{"a port in use", testPod("a", unscheduled("1 member(s) didn't have free ports for the requested pod ports.")),
			"Unschedulable", "spec.discovery.port"},
		{"two pools", testPod("a", unscheduled("1 member(s) didn't match pod anti-affinity rules.")),
			"Unschedulable", "two of spec.nodePools"},
		{"no volume for its disk", testPod("a", unscheduled("0/3 members are available: 3 node(s) didn't find available persistent volumes to bind.")),
			"Unschedulable", "correct storageClassName or size"},
		{"no claim for its disk", testPod("a", unscheduled("0/3 members are available: pod has unbound immediate PersistentVolumeClaims.")),
			"Unschedulable", "no volume of spec.disk.volumeClaim can be made there: see kubectl describe pvc"},
		{"no image for the folders of its disk", testPod("a", pending, func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: plan.DiskFoldersName, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: "no space"}}}}
		}), "CreateContainerError", "no space"},
		{"no devices for its claims", testPod("a", unscheduled("0/3 members are available: 1 cannot allocate all claims.")),
			"Unschedulable", "kubectl get resourceslices"},
		{"no class of its claims' devices", testPod("a", unscheduled("0/3 members are available: request nic0: device class x does not exist.")),
			"Unschedulable", "create the DeviceClass"},
		{"refused by the topology manager", testPod("a", refused("one")), "NUMAMisaligned", "topology manager of machine-1 finds no " +
			"NUMA node with the cores, huge pages and devices of this pod together (Resources cannot be allocated with Topology " +
			"locality): lower resources.cpu or memory.pool so that they fit; or write topologyManagerPolicy: best-effort"},
		{"refused by the topology manager with several devices", testPod("a", refused("all")), "NUMAMisaligned",
			"if rail0 and rail1 are on different NUMA nodes, run one member per NUMA node: set the right rails[].numaNode (layout: PerNUMA)"},
		{"refused by the kubelet", testPod("a", func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodFailed
			pod.Status.Reason = "OutOfnvidia.com/gpu"
			pod.Status.Message = "no GPU"
		}), "PodFailed", "OutOfnvidia.com/gpu: no GPU"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			faults := faultsOf(cached(t, test.pod), groups, noon)
			if test.reason == "" {
				if len(faults) != 0 {
					t.Fatalf("got %v, want no fault", faults)
				}
				return
			}
			if len(faults) != 1 {
				t.Fatalf("got %v, want one fault", faults)
			}
			if faults[0].reason != test.reason || !conditionReason.MatchString(faults[0].reason) {
				t.Errorf("reason is %q, want %q", faults[0].reason, test.reason)
			}
			if text := faults[0].String(); !strings.Contains(text, test.says) || !strings.HasPrefix(text, "pod a: ") {
				t.Errorf("it says %q, want %q", text, test.says)
			}
		})
	}
}

// TestRemovalFaults: a pod that removes files of pools and does not run is told with what that means; members serve all the same.
func TestRemovalFaults(t *testing.T) {
	removal := func(changes ...func(*corev1.Pod)) []corev1.Pod {
		pod := testPod("demo-default-pool-1", changes...)
		pod.Status.ContainerStatuses = slices.Clone(pod.Status.ContainerStatuses)
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].Name = plan.ComponentPoolFile
		}
		return cached(t, pod)
	}
	faults := removalFaultsOf(removal(waiting("CreateContainerError", "no such folder")), noon)
	if len(faults) != 1 || faults[0].reason != "CreateContainerError" || !strings.Contains(faults[0].String(), "no such folder; while it does not run, nothing removes") {
		t.Errorf("faults are %v", faults)
	}
	conditions := conditionsOf(conditionInputs{progress: rolloutOf(nil, nil), removalFaults: faults})
	degraded := meta.FindStatusCondition(conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.Reason != "CreateContainerError" {
		t.Errorf("Degraded is %v", degraded)
	}
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready.Reason == "MembersBroken" {
		t.Errorf("Ready is %v", ready)
	}
	for name, pod := range map[string][]corev1.Pod{
		"runs": removal(), "is not ready": removal(unreadyFor(2 * time.Minute)),
		"was not admitted": removal(func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "OutOfcpu" }),
	} {
		if faults := removalFaultsOf(pod, noon); len(faults) != 0 {
			t.Errorf("one that %s: %v", name, faults)
		}
	}
}
