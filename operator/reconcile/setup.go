// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/slim"
	"github.com/peercache/peercache/operator/status"
)

// CacheByObject restricts the manager's cache to objects of PeerCache, so that its memory does not grow with the pods
// of others.
func CacheByObject() map[client.Object]cache.ByObject {
	owned := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{plan.LabelManagedBy: plan.ManagedBy})}
	nodes := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{
		plan.LabelManagedBy: plan.ManagedBy,
		plan.LabelComponent: plan.ComponentNode,
	}), Transform: slim.Pod}
	return map[client.Object]cache.ByObject{
		&appsv1.DaemonSet{}:      owned,
		&corev1.ConfigMap{}:      owned,
		&corev1.Service{}:        owned,
		&corev1.ServiceAccount{}: owned,
		&corev1.Pod{}:            nodes,
		&corev1.Node{}:           {Transform: slim.Machine},
		&storagev1.CSINode{}:     {Transform: slim.CSINode},
	}
}

// SetupWithManager registers the reconciler. A change of a cluster's spec, of its objects, of its nodes' pods, of
// machines or of the CSI driver triggers a pass.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	build := ctrl.NewControllerManagedBy(mgr).
		Named("peercachecluster").
		For(&v1alpha1.PeerCacheCluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, updatePauseChanged, userAsked))).
		Owns(&appsv1.DaemonSet{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(clusterOfPod)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4,
			// A failed pass is repeated after 5 ms, then with exponential backoff.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond, stableInterval),
		})
	if !r.Injection.Namespaced() {
		build = build.Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.allClusters), builder.WithPredicates(machineChanged)).
			// Installing or removing the driver changes admission policies.
			WatchesMetadata(&storagev1.CSIDriver{}, handler.EnqueueRequestsFromMapFunc(r.allClusters), builder.WithPredicates(csiDriverInstalled)).
			Watches(&storagev1.CSINode{}, handler.EnqueueRequestsFromMapFunc(r.allClusters), builder.WithPredicates(csiDriverRegistered)).
			// A policy has the limits of its cluster's namespace.
			Watches(&corev1.LimitRange{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace))
	}
	if err := mgr.Add(manager.RunnableFunc(r.applier().DeleteOrphanedPolicies)); err != nil {
		return fmt.Errorf("setting up the deletion of admission policies: %w", err)
	}
	if r.Watchdog != nil {
		build = build.WatchesRawSource(r.Watchdog.Source())
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("setting up the PeerCacheCluster controller: %w", err)
	}
	return nil
}

// updatePauseChanged passes the start and the end of a pause of an update: the next pass puts it into effect.
var updatePauseChanged = onUpdate(func(old, changed client.Object) bool {
	before, okBefore := old.(*v1alpha1.PeerCacheCluster)
	after, okAfter := changed.(*v1alpha1.PeerCacheCluster)
	return okBefore && okAfter && status.Paused(before.Status.Update) != status.Paused(after.Status.Update)
})

// userAsked passes changes of the annotations with which a user asks for something.
var userAsked = onUpdate(func(before, after client.Object) bool {
	return slices.ContainsFunc([]string{v1alpha1.AnnotationRotateToken, v1alpha1.AnnotationConfirmLoss}, func(key string) bool {
		return before.GetAnnotations()[key] != after.GetAnnotations()[key]
	})
})

// onUpdate passes the updates that satisfy a function, and no other event.
func onUpdate(passes func(before, after client.Object) bool) predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return passes(e.ObjectOld, e.ObjectNew) },
	}
}

// machineChanged drops updates that change nothing the cache holds, such as heartbeats of kubelets.
var machineChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, _ := slim.Machine(e.ObjectOld)
	after, _ := slim.Machine(e.ObjectNew)
	old, okOld := before.(*corev1.Node)
	now, okNow := after.(*corev1.Node)
	return !okOld || !okNow || !equality.Semantic.DeepEqual(old.Labels, now.Labels) ||
		!equality.Semantic.DeepEqual(old.Spec, now.Spec) || !equality.Semantic.DeepEqual(old.Status, now.Status)
}}

// csiDriverInstalled passes the creation and the deletion of PeerCache's CSIDriver.
var csiDriverInstalled = predicate.And(
	predicate.NewPredicateFuncs(func(driver client.Object) bool { return driver.GetName() == plan.CSIDriver }),
	predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }},
)

// csiDriverRegistered passes machines that get or lose PeerCache's CSI driver.
var csiDriverRegistered = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return hasDriver(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool { return hasDriver(e.ObjectOld) != hasDriver(e.ObjectNew) },
	DeleteFunc: func(e event.DeleteEvent) bool { return hasDriver(e.Object) },
}

func hasDriver(object client.Object) bool {
	machine, ok := object.(*storagev1.CSINode)
	return ok && inject.HasDriver(*machine)
}

// policiesOfNamespace triggers a pass over the clusters of an object's namespace whose pods a policy connects.
func (r *Reconciler) policiesOfNamespace(ctx context.Context, object client.Object) (requests []ctrl.Request) {
	var clusters v1alpha1.PeerCacheClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(object.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "listing PeerCacheClusters; they are checked again within half a minute")
	}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Spec.Injection.By == v1alpha1.InjectionByPolicy {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)})
		}
	}
	return requests
}

// allClusters triggers a pass over every cluster: which clusters select a machine is known only from their plans.
func (r *Reconciler) allClusters(ctx context.Context, _ client.Object) []ctrl.Request {
	var clusters v1alpha1.PeerCacheClusterList
	if err := r.Client.List(ctx, &clusters); err != nil {
		log.FromContext(ctx).Error(err, "listing PeerCacheClusters; they are checked again within half a minute")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(clusters.Items))
	for i := range clusters.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
	}
	return requests
}

// clusterOfPod finds a pod's cluster by its label, because a DaemonSet owns the pod, not the cluster.
func clusterOfPod(_ context.Context, pod client.Object) []ctrl.Request {
	cluster := pod.GetLabels()[v1alpha1.LabelCluster]
	if cluster == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: cluster}}}
}
