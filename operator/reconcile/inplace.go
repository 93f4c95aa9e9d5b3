// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/inplace"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
	"github.com/peercache/peercache/operator/status"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=list

// replaceWhereNeeded lets the DaemonSet controller replace pods that a patch of their images cannot bring up to date. It looks
// at the DaemonSets as they are stored: a template that this pass writes is looked at by the next one.
func (p *pass) replaceWhereNeeded(desired *plan.Desired) {
	if p.Cluster.Spec.Update.Strategy != v1alpha1.UpdateInPlace || status.Paused(p.Cluster.Status.Update) {
		return
	}
	for _, daemonSet := range desired.DaemonSets {
		live := p.DaemonSets[daemonSet.Name]
		if live != nil && inplace.NeedsNewPods(&live.Spec.Template, p.podsOf(live)) {
			daemonSet.Spec.UpdateStrategy = plan.RollingUpdate(p.Cluster.Spec.Update)
		}
	}
}

// podsOf are the pods of a DaemonSet, in the cache's own memory.
func (p *pass) podsOf(daemonSet *appsv1.DaemonSet) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range p.Pods {
		if metav1.IsControlledBy(&p.Pods[i], daemonSet) {
			pods = append(pods, &p.Pods[i])
		}
	}
	return pods
}

// updateInPlace gives pods the images of their template, a few at a time.
func (r *Reconciler) updateInPlace(ctx context.Context, p *pass) error {
	if p.Desired == nil || p.Cluster.Spec.Update.Strategy != v1alpha1.UpdateInPlace || r.Facts.PodsUnpatched {
		return nil
	}
	for _, desired := range p.Desired.DaemonSets {
		live := p.DaemonSets[desired.Name]
		if live == nil || live.Status.ObservedGeneration < live.Generation {
			continue // the controller has not numbered the template yet
		}
		pods := p.podsOf(live)
		if !inplace.UnderWay(live, pods) {
			continue
		}
		err := r.updateDaemonSet(ctx, p, live, pods)
		if apierrors.IsForbidden(err) {
			p.Problem = rights.Forbidden("update", "pods in place", schema.GroupKind{Kind: "Pod"}, p.Cluster.Namespace, err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) updateDaemonSet(ctx context.Context, p *pass, live *appsv1.DaemonSet, pods []*corev1.Pod) error {
	revision, err := r.revisionOf(ctx, live)
	if err != nil || revision == "" {
		return err
	}
	steps := inplace.Next(live, revision, pods, plan.Allowed(p.Cluster.Spec.Update, live, p.Pods, p.Machines))
	for _, pod := range steps.Finish {
		if err := r.patchPod(ctx, p, pod, types.MergePatchType, inplace.FinishPatch()); err != nil {
			return err
		}
	}
	for _, pod := range steps.Renumber {
		if err := r.patchPod(ctx, p, pod, types.MergePatchType, inplace.RenumberPatch(revision)); err != nil {
			return err
		}
	}
	if status.Paused(p.Cluster.Status.Update) {
		return nil
	}
	for _, pod := range steps.Patch {
		patch := inplace.Patch(pod, &live.Spec.Template, revision, r.Now())
		if err := r.patchPod(ctx, p, pod, types.StrategicMergePatchType, patch); err != nil {
			return err
		}
		log.FromContext(ctx).Info("gave a pod the images of its template", "pod", pod.Name, "revision", revision)
	}
	return nil
}

// patchPod patches a pod, unless it is gone.
func (r *Reconciler) patchPod(ctx context.Context, p *pass, pod *corev1.Pod, kind types.PatchType, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding the patch of pod %s: %w", pod.Name, err)
	}
	p.changed = true
	err = r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(kind, data), client.FieldOwner(apply.FieldManager))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the next pass looks at the pod that is there then
	}
	if err != nil {
		return fmt.Errorf("updating pod %s in place: %w", pod.Name, err)
	}
	return nil
}

// revisionOf is the hash of the DaemonSet's present template: that of its latest revision. "" when there is none.
func (r *Reconciler) revisionOf(ctx context.Context, daemonSet *appsv1.DaemonSet) (string, error) {
	var revisions appsv1.ControllerRevisionList
	err := r.Live.List(ctx, &revisions, client.InNamespace(daemonSet.Namespace), client.MatchingLabels(daemonSet.Spec.Selector.MatchLabels))
	if err != nil {
		return "", fmt.Errorf("listing the revisions of DaemonSet %s: %w", daemonSet.Name, err)
	}
	var latest *appsv1.ControllerRevision
	for i := range revisions.Items {
		revision := &revisions.Items[i]
		if metav1.IsControlledBy(revision, daemonSet) && (latest == nil || revision.Revision > latest.Revision) {
			latest = revision
		}
	}
	if latest == nil {
		return "", nil
	}
	return latest.Labels[appsv1.ControllerRevisionHashLabelKey], nil
}
