// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
)

// missedBy is the index of missed pods by the cluster that they name.
const missedBy = "missed-by"

// podMeta is the type of pods in the cache.
func podMeta() *metav1.PartialObjectMetadata {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}

// cacheOptions restrict the cache to the metadata of unfinished pods with the label. One cache serves all clusters, so the value
// of the label does not matter.
func cacheOptions() (cache.Options, error) {
	requirement, err := labels.NewRequirement(v1alpha1.LabelInject, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("selecting pods by %s: %w", v1alpha1.LabelInject, err)
	}
	unfinished := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		podMeta(): {Label: labels.NewSelector().Add(*requirement), Field: unfinished, Transform: trimPod},
	}}, nil
}

// trimPod drops unused fields, which are most of the memory with thousands of pods.
func trimPod(object any) (any, error) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := &metav1.PartialObjectMetadata{TypeMeta: pod.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		Labels: map[string]string{v1alpha1.LabelInject: pod.Labels[v1alpha1.LabelInject]},
	}}
	for _, key := range []string{names.AnnotationInjected, names.AnnotationSkipReason, v1alpha1.AnnotationClusterNamespace} {
		if value, ok := pod.Annotations[key]; ok {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[key] = value
		}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return kept, nil
}

// isMissed is true for a pod that names a cluster, and has neither been connected nor got a reason.
func isMissed(pod metav1.Object) bool {
	annotations := pod.GetAnnotations()
	return pod.GetLabels()[v1alpha1.LabelInject] != "" && pod.GetDeletionTimestamp().IsZero() &&
		annotations[names.AnnotationInjected] == "" && annotations[names.AnnotationSkipReason] == ""
}

// clusterOf returns the cluster to reconcile when a pod changes.
func clusterOf(_ context.Context, pod client.Object) []ctrl.Request {
	key := inject.ClusterOf(pod, pod.GetNamespace())
	if key.Name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: key}}
}

// missedChanged ignores every change of connected pods.
func missedChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isMissed(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return isMissed(e.Object) || !e.Object.GetDeletionTimestamp().IsZero() },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isMissed(e.ObjectOld) != isMissed(e.ObjectNew) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Missed returns the missed pods that the cluster would serve, oldest first.
func (d *Watchdog) Missed(ctx context.Context, c *v1alpha1.PeerCacheCluster) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	key := client.ObjectKeyFromObject(c)
	if err := d.pods.List(ctx, list, client.MatchingFields{missedBy: key.String()}); err != nil {
		return nil, fmt.Errorf("listing the pods that ask for %s: %w", key, err)
	}
	refused := map[string]bool{}
	for _, pod := range list.Items {
		if _, known := refused[pod.Namespace]; !known {
			refused[pod.Namespace] = inject.RefusesNamespace(ctx, d.live, c, pod.Namespace) != ""
		}
	}
	missed := slices.DeleteFunc(list.Items, func(pod metav1.PartialObjectMetadata) bool { return refused[pod.Namespace] })
	slices.SortFunc(missed, func(a, b metav1.PartialObjectMetadata) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return missed, nil
}
