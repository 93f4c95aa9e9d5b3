// SPDX-License-Identifier: Apache-2.0

// Package inplace decides how nodes get another image without losing their pages (spec.update.strategy: InPlace). It is pure.
//
// A new pod has a new, empty pool. A pod whose image is patched keeps its volumes: the kubelet restarts the containers, and the
// new process adopts the pool of the former one. So the DaemonSet gets strategy OnDelete, and the operator patches its pods. A
// change of more than images needs new pods; for that the DaemonSet gets strategy RollingUpdate until all pods are new. So do
// pods whose images an admission webhook has rewritten, to those of a mirror: such webhooks see new pods, and not patches.
//
// A revision without other images, of `kubectl rollout restart` or of an annotation that somebody adds to the template, restarts
// nothing: the pods get its number.
//
// The labels of a pod hold the state, so an operator that restarts goes on where the former one stopped:
//
//	controller-revision-hash  the revision of the template that the pod has; patched with the image, as the DaemonSet
//	                          controller counts updated pods by it
//	peercache.io/pod-shape    digest of the template without its images (plan)
//	peercache.io/pod-images   digest of the images that the operator wrote for the pod
//	peercache.io/restarting   restarts of the pod before it was patched, and when; removed when it has restarted and is ready
package inplace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/slim"
)

// NeedsNewPods says whether some pods cannot be brought up to date by a patch of their images. While there are such, the
// DaemonSet controller replaces all that have a former template.
func NeedsNewPods(template *corev1.PodTemplateSpec, pods []*corev1.Pod) bool {
	want := template.Labels[v1alpha1.LabelPodShape]
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Labels[v1alpha1.LabelPodShape] != want || !hasImages(template, pod) && rewritten(template, pod)
	})
}

// hasImages says whether the operator has written the template's images for the pod.
func hasImages(template *corev1.PodTemplateSpec, pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelPodImages] == template.Labels[v1alpha1.LabelPodImages]
}

// rewritten says whether the pod has other images than the operator wrote for it.
func rewritten(template *corev1.PodTemplateSpec, pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelPodImages] != plan.ImagesDigest(&template.Spec, &pod.Spec)
}

// UnderWay says whether pods have a former revision, or restart.
func UnderWay(daemonSet *appsv1.DaemonSet, pods []*corev1.Pod) bool {
	return daemonSet.Status.UpdatedNumberScheduled < daemonSet.Status.DesiredNumberScheduled ||
		slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { _, ok := pod.Labels[v1alpha1.LabelRestarting]; return ok })
}

// Steps are the pods to patch now.
type Steps struct {
	// Renumber gets the number of the revision, whose images it has.
	Renumber []*corev1.Pod
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
		case former && hasImages(&daemonSet.Spec.Template, pod):
			steps.Renumber = append(steps.Renumber, pod)
			if restarting || !slim.Ready(pod) {
				budget--
			}
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
		return Steps{Finish: steps.Finish}
	}
	byName := func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(broken, byName)
	slices.SortFunc(serving, byName)
	// A pod that does not serve loses nothing by a new image, and may need it.
	steps.Patch = append(steps.Patch, broken...)
	steps.Patch = append(steps.Patch, serving[:min(len(serving), max(0, budget-len(broken)))]...)
	return steps
}

// RenumberPatch is the merge patch of a pod that has the images of a revision.
func RenumberPatch(revision string) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{appsv1.ControllerRevisionHashLabelKey: revision}}}
}

// Patch is the strategic merge patch that gives a pod the images of the template.
func Patch(pod *corev1.Pod, template *corev1.PodTemplateSpec, revision string, now time.Time) map[string]any {
	labels := map[string]string{
		appsv1.ControllerRevisionHashLabelKey: revision,
		v1alpha1.LabelPodImages:               template.Labels[v1alpha1.LabelPodImages],
	}
	if restarts(template, pod) {
		labels[v1alpha1.LabelRestarting] = fmt.Sprintf("%d.%d", restartCount(pod), now.Unix())
	}
	images := func(containers []corev1.Container) []map[string]string {
		list := make([]map[string]string, len(containers))
		for i, c := range containers {
			list[i] = map[string]string{"name": c.Name, "image": c.Image}
		}
		return list
	}
	return map[string]any{
		"metadata": map[string]any{
			"uid":    pod.UID, // not a pod of the same name that came since
			"labels": labels,
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

// restarts says whether the kubelet restarts a container when the pod gets the template's images. It runs no init container
// again for another image.
func restarts(template *corev1.PodTemplateSpec, pod *corev1.Pod) bool {
	always := corev1.ContainerRestartPolicyAlways
	return slices.ContainsFunc(slices.Concat(template.Spec.InitContainers, template.Spec.Containers), func(wanted corev1.Container) bool {
		has := func(c corev1.Container) bool { return c.Name == wanted.Name && c.Image != wanted.Image }
		return slices.ContainsFunc(pod.Spec.Containers, has) ||
			wanted.RestartPolicy != nil && *wanted.RestartPolicy == always && slices.ContainsFunc(pod.Spec.InitContainers, has)
	})
}

// restarted says whether a container has restarted since the pod was patched. A label that cannot be read is of no operator of
// ours: such a pod counts as restarted, or the update would wait forever.
func restarted(pod *corev1.Pod) bool {
	before, _, err := parse(pod.Labels[v1alpha1.LabelRestarting])
	return err != nil || int(restartCount(pod)) > before
}

// Awaited is when a pod was patched whose containers have not restarted since; zero for others.
func Awaited(pod *corev1.Pod) time.Time {
	label, restarting := pod.Labels[v1alpha1.LabelRestarting]
	_, since, err := parse(label)
	if !restarting || err != nil || restarted(pod) {
		return time.Time{}
	}
	return since
}

func parse(restarting string) (before int, since time.Time, err error) {
	count, seconds, _ := strings.Cut(restarting, ".")
	if before, err = strconv.Atoi(count); err != nil {
		return 0, time.Time{}, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	return before, time.Unix(unix, 0), err
}

func restartCount(pod *corev1.Pod) int32 {
	var sum int32
	for _, c := range pod.Status.ContainerStatuses {
		sum += c.RestartCount
	}
	return sum
}
