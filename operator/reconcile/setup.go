// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
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
	"github.com/peercache/peercache/operator/plan"
)

// CacheByObject restricts the manager's cache to what PeerCache owns, so that its memory does not grow
// with the rest of the Kubernetes cluster.
func CacheByObject() map[client.Object]cache.ByObject {
	owned := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{plan.LabelManagedBy: plan.ManagedBy})}
	nodes := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{
		plan.LabelManagedBy: plan.ManagedBy,
		plan.LabelComponent: plan.ComponentNode,
	}), Transform: slimPod}
	return map[client.Object]cache.ByObject{
		&appsv1.DaemonSet{}:      owned,
		&corev1.ConfigMap{}:      owned,
		&corev1.Service{}:        owned,
		&corev1.ServiceAccount{}: owned,
		&corev1.Pod{}:            nodes,
		&corev1.Node{}:           {Transform: slimMachine},
	}
}

// SetupWithManager registers the reconciler and what makes it run: changes of a cluster's spec, of the
// objects that it owns, and of its nodes' pods.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	build := ctrl.NewControllerManagedBy(mgr).
		Named("peercachecluster").
		For(&v1alpha1.PeerCacheCluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, updateTurned))).
		Owns(&appsv1.DaemonSet{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(clusterOfPod)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.everyCluster), builder.WithPredicates(machineChanged)).
		// The driver comes and goes with an installation, and admission policies depend on it.
		WatchesMetadata(&storagev1.CSIDriver{}, handler.EnqueueRequestsFromMapFunc(r.everyCluster), builder.WithPredicates(ourDriver)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4,
			// A pass that failed is tried again after 5 ms, and then ever more rarely.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond, whileStable),
		})
	if err := mgr.Add(manager.RunnableFunc(r.sweepPolicies)); err != nil {
		return fmt.Errorf("setting up the deletion of admission policies: %w", err)
	}
	if r.Engines != nil {
		build = build.WatchesRawSource(r.Engines.Source())
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("setting up the PeerCacheCluster controller: %w", err)
	}
	return nil
}

// updateTurned passes what pauses an update, or ends a pause: the next pass puts that into effect.
var updateTurned = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.PeerCacheCluster)
		after, okAfter := e.ObjectNew.(*v1alpha1.PeerCacheCluster)
		return okBefore && okAfter && paused(before.Status.Update) != paused(after.Status.Update)
	},
}

// machineChanged passes over the kubelets' heartbeats.
var machineChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, _ := slimMachine(e.ObjectOld)
	after, _ := slimMachine(e.ObjectNew)
	old, okOld := before.(*corev1.Node)
	now, okNow := after.(*corev1.Node)
	return !okOld || !okNow || !equality.Semantic.DeepEqual(old.Labels, now.Labels) ||
		!equality.Semantic.DeepEqual(old.Spec, now.Spec) || !equality.Semantic.DeepEqual(old.Status, now.Status)
}}

// ourDriver passes over the drivers of others and over changes of ours.
var ourDriver = predicate.And(
	predicate.NewPredicateFuncs(func(driver client.Object) bool { return driver.GetName() == plan.CSIDriver }),
	predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }},
)

// everyCluster looks at all clusters again: which of them choose a machine is only known from their plans.
func (r *Reconciler) everyCluster(ctx context.Context, _ client.Object) []ctrl.Request {
	var clusters v1alpha1.PeerCacheClusterList
	if err := r.Client.List(ctx, &clusters); err != nil {
		log.FromContext(ctx).Error(err, "listing PeerCacheClusters; they are looked at again within half a minute")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(clusters.Items))
	for i := range clusters.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
	}
	return requests
}

// clusterOfPod finds a pod's cluster by its label: a pod is owned by a DaemonSet, not by the cluster.
func clusterOfPod(_ context.Context, pod client.Object) []ctrl.Request {
	cluster := pod.GetLabels()[v1alpha1.LabelCluster]
	if cluster == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: cluster}}}
}
