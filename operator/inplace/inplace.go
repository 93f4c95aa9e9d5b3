// SPDX-License-Identifier: Apache-2.0

// Package inplace decides how nodes get another image without losing their pages (spec.update.strategy: InPlace). It is pure.
//
// A new pod has a new, empty pool. A pod whose image is patched keeps its volumes: the kubelet restarts the containers, and the
// new process adopts the pool of the former one. So the DaemonSet gets strategy OnDelete, and the operator patches its pods. A
// change of more than images needs new pods; for that the DaemonSet gets strategy RollingUpdate until all pods are new.
//
// The labels of a pod hold the state, so an operator that restarts goes on where the former one stopped:
//
//	controller-revision-hash  the revision of the template that the pod has; patched with the image, as the DaemonSet
//	                          controller counts updated pods by it
//	peercache.io/pod-shape    digest of the template without its images (plan)
//	peercache.io/restarting   restarts of the pod before it was patched; removed when it has restarted and is ready
package inplace

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/slim"
)

// NeedsNewPods says whether some pods differ from the template in more than images. While they do, the DaemonSet controller
// replaces them.
func NeedsNewPods(template *corev1.PodTemplateSpec, pods []*corev1.Pod) bool {
	want := template.Labels[v1alpha1.LabelPodShape]
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.LabelPodShape] != want })
}

// UnderWay says whether pods have a former revision, or restart.
func UnderWay(daemonSet *appsv1.DaemonSet, pods []*corev1.Pod) bool {
	return daemonSet.Status.UpdatedNumberScheduled < daemonSet.Status.DesiredNumberScheduled ||
		slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { _, ok := pod.Labels[v1alpha1.LabelRestarting]; return ok })
}

// Steps are the pods to patch now.
type Steps struct {
	// Patch gets the images of the template.
	Patch []*corev1.Pod
	// Finish has restarted with its images, and is ready.
	Finish []*corev1.Pod
}

// Next decides about the pods of one DaemonSet, of which as many as the budget says may be away. revision is that of the
// template. It returns no pod to patch while some need to be replaced (NeedsNewPods).
func Next(daemonSet *appsv1.DaemonSet, revision string, pods []*corev1.Pod, budget int) Steps {
	var steps Steps
	var broken, serving []*corev1.Pod // that have a former image
	present := 0
	for _, pod := range pods {
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		present++
		_, restarting := pod.Labels[v1alpha1.LabelRestarting]
		switch former := pod.Labels[appsv1.ControllerRevisionHashLabelKey] != revision; {
		case restarting && !former && restarted(pod) && slim.Ready(pod):
			steps.Finish = append(steps.Finish, pod)
		case former && !slim.Ready(pod):
			broken = append(broken, pod)
		case restarting || !slim.Ready(pod):
			budget--
		case former:
			serving = append(serving, pod)
		}
	}
	budget -= max(0, int(daemonSet.Status.DesiredNumberScheduled)-present) // their pods are being created
	if NeedsNewPods(&daemonSet.Spec.Template, pods) {
		return steps
	}
	byName := func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(broken, byName)
	slices.SortFunc(serving, byName)
	// A pod that does not serve loses nothing by a new image, and may need it.
	steps.Patch = append(steps.Patch, broken...)
	steps.Patch = append(steps.Patch, serving[:min(len(serving), max(0, budget-len(broken)))]...)
	return steps
}

// Patch is the strategic merge patch that gives a pod the images of the template.
func Patch(pod *corev1.Pod, template *corev1.PodTemplateSpec, revision string) map[string]any {
	images := func(containers []corev1.Container) []map[string]string {
		list := make([]map[string]string, len(containers))
		for i, c := range containers {
			list[i] = map[string]string{"name": c.Name, "image": c.Image}
		}
		return list
	}
	return map[string]any{
		"metadata": map[string]any{
			"uid": pod.UID, // not a pod of the same name that came since
			"labels": map[string]string{
				appsv1.ControllerRevisionHashLabelKey: revision, v1alpha1.LabelRestarting: strconv.Itoa(int(restarts(pod))),
			},
		},
		"spec": map[string]any{
			"initContainers": images(template.Spec.InitContainers), "containers": images(template.Spec.Containers),
		},
	}
}

// FinishPatch is the merge patch of a pod that has restarted.
func FinishPatch() map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelRestarting: nil}}}
}

// restarted says whether a container has restarted since the pod was patched. A count that cannot be read is of no operator of
// ours: such a pod counts as restarted, or the update would wait forever.
func restarted(pod *corev1.Pod) bool {
	before, err := strconv.Atoi(pod.Labels[v1alpha1.LabelRestarting])
	return err != nil || int(restarts(pod)) > before
}

func restarts(pod *corev1.Pod) int32 {
	var sum int32
	for _, c := range pod.Status.ContainerStatuses {
		sum += c.RestartCount
	}
	return sum
}
