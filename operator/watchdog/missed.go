// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
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

// The indices of pods by the cluster that they name.
const (
	missedBy = "missed-by"
	partlyBy = "partly-by"
	joinedBy = "joined-by"
)

// cacheOptions restrict the cache to a small part of unfinished pods with the label. One cache serves all clusters, so the value
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
		&corev1.Pod{}: {Label: labels.NewSelector().Add(*requirement), Field: unfinished, Transform: trimPod},
	}}, nil
}

// ranksKey is an annotation that no pod has and the cache gives: the number of ranks, which follows from arguments that it drops.
const ranksKey = "ranks"

// trimPod drops unused fields, which are most of the memory with thousands of pods.
func trimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			Labels: map[string]string{v1alpha1.LabelInject: pod.Labels[v1alpha1.LabelInject]}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
	}
	for _, key := range []string{
		names.AnnotationInjected, names.AnnotationPartly, names.AnnotationSkipReason, names.AnnotationHoldout, v1alpha1.AnnotationClusterNamespace,
	} {
		if value, ok := pod.Annotations[key]; ok {
			kept.Annotations[key] = value
		}
	}
	if isConnected(pod) {
		kept.Annotations[ranksKey] = strconv.Itoa(inject.Ranks(pod))
	}
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodReady:
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.PodCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return kept, nil
}

// asks is true for a pod that names a cluster, and stays.
func asks(pod metav1.Object) bool {
	return pod.GetLabels()[v1alpha1.LabelInject] != "" && pod.GetDeletionTimestamp().IsZero()
}

// isMissed is true for a pod that names a cluster, and has neither been connected nor got a reason.
func isMissed(pod metav1.Object) bool {
	annotations := pod.GetAnnotations()
	return asks(pod) && annotations[names.AnnotationInjected] == "" && annotations[names.AnnotationPartly] == "" &&
		annotations[names.AnnotationSkipReason] == ""
}

// isPartly is true for a pod that names a cluster, and is connected but for the flags.
func isPartly(pod metav1.Object) bool {
	return asks(pod) && pod.GetAnnotations()[names.AnnotationPartly] != ""
}

// isInjected is true for a pod that has all that its engine needs for a cluster.
func isInjected(pod metav1.Object) bool {
	return asks(pod) && pod.GetAnnotations()[names.AnnotationInjected] != ""
}

// isConnected is true for a pod whose engine should attach to a cluster.
func isConnected(pod metav1.Object) bool {
	return isInjected(pod) && pod.GetAnnotations()[names.AnnotationHoldout] != names.HoldoutTrue
}

// clusterOf returns the cluster to reconcile when a pod changes.
func clusterOf(_ context.Context, pod client.Object) []ctrl.Request {
	key := inject.ClusterOf(pod, pod.GetNamespace())
	if key.Name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: key}}
}

// changed ignores every change of connected pods.
func changed() predicate.Predicate {
	lacks := func(pod client.Object) bool { return isMissed(pod) || isPartly(pod) }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return lacks(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return lacks(e.Object) || !e.Object.GetDeletionTimestamp().IsZero() },
		UpdateFunc:  func(e event.UpdateEvent) bool { return lacks(e.ObjectOld) != lacks(e.ObjectNew) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Missed returns the missed pods that the cluster would serve, oldest first.
func (d *Watchdog) Missed(ctx context.Context, c *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error) {
	return d.list(ctx, c, missedBy)
}

// Partly returns the pods that are partly connected to the cluster, oldest first.
func (d *Watchdog) Partly(ctx context.Context, c *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error) {
	return d.list(ctx, c, partlyBy)
}

// Engines returns the connected pods of the cluster that run on a machine.
func (d *Watchdog) Engines(ctx context.Context, c *v1alpha1.PeerCacheCluster) ([]inject.Engine, error) {
	list := &corev1.PodList{}
	key := client.ObjectKeyFromObject(c)
	if err := d.pods.List(ctx, list, client.MatchingFields{joinedBy: key.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the engines of %s: %w", key, err)
	}
	engines := make([]inject.Engine, 0, len(list.Items))
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Spec.NodeName != "" {
			ranks, _ := strconv.Atoi(pod.Annotations[ranksKey])
			engines = append(engines, inject.EngineOf(pod, max(1, ranks)))
		}
	}
	slices.SortFunc(engines, func(a, b inject.Engine) int { return strings.Compare(a.Pod, b.Pod) })
	return engines, nil
}

func (d *Watchdog) list(ctx context.Context, c *v1alpha1.PeerCacheCluster, index string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	key := client.ObjectKeyFromObject(c)
	if err := d.pods.List(ctx, list, client.MatchingFields{index: key.String()}); err != nil {
		return nil, fmt.Errorf("listing the pods that ask for %s: %w", key, err)
	}
	refused := map[string]bool{}
	for _, pod := range list.Items {
		if _, known := refused[pod.Namespace]; !known {
			refused[pod.Namespace] = inject.RefusesNamespace(ctx, d.live, c, pod.Namespace) != ""
		}
	}
	served := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return refused[pod.Namespace] })
	slices.SortFunc(served, func(a, b corev1.Pod) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return served, nil
}
