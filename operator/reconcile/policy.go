// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=get;list;create;patch;delete

// policyKinds are those of a cluster's admission policy. They have no namespace, and so no owner: the garbage collector
// does not delete them with their cluster. Reconcile does when it hears that the cluster is gone, sweepPolicies when that
// was while no operator ran, and sweepFormer when another cluster has its name. Without a cluster they do nothing, because
// their parameter is missing.
var policyKinds = []string{inject.PolicyKind, inject.PolicyBindingKind}

// policies are the admission policy that a cluster asks for and its binding. They are untyped, because an older API
// server does not know their kinds.
func policies(cluster *v1alpha1.PeerCacheCluster, options inject.Options, driverMissing bool) []client.Object {
	if cluster.Spec.Injection.By != v1alpha1.InjectionByPolicy {
		return nil
	}
	facts := inject.FactsFor(cluster, cluster.Namespace, options)
	facts.DriverMissing = driverMissing
	policy, binding := inject.Policy(facts, cluster.Spec.Injection.NamespaceSelector)
	var objects []client.Object
	for _, object := range []client.Object{policy, binding} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			panic(err) // both are types of Kubernetes
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects
}

// belongs says whether an object was made for a cluster.
func belongs(object metav1.Object, cluster *v1alpha1.PeerCacheCluster) bool {
	if object.GetNamespace() != "" {
		return metav1.IsControlledBy(object, cluster)
	}
	key, ours := inject.ClusterOfPolicy(object)
	return ours && key == client.ObjectKeyFromObject(cluster)
}

// deletePolicies deletes what a cluster that is gone has left.
func (r *Reconciler) deletePolicies(ctx context.Context, cluster client.ObjectKey) error {
	for _, kind := range policyKinds {
		object := policyMetadata(kind)
		err := r.Live.Get(ctx, client.ObjectKey{Name: inject.PolicyName(cluster.Namespace, cluster.Name)}, object)
		// Who may not read them has made none.
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the %s of %s: %w", kind, cluster, err)
		}
		if err := r.deletePolicy(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// sweepFormer deletes the policy of a former cluster of this name, once: nobody hears that a cluster is gone when it is
// made anew at once, and the new one's status does not know of it. A policy that this cluster made, or asks for, is left
// to applyExtras.
func (r *Reconciler) sweepFormer(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) error {
	memory := r.memories.of(cluster)
	if memory.swept || cluster.Spec.Injection.By == v1alpha1.InjectionByPolicy ||
		slices.ContainsFunc(cluster.Status.Objects, func(made v1alpha1.MadeObject) bool { return slices.Contains(policyKinds, made.Kind) }) {
		return nil
	}
	err := r.deletePolicies(ctx, client.ObjectKeyFromObject(cluster))
	memory.swept = err == nil
	return err
}

func (r *Reconciler) deletePolicy(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	cluster, ours := inject.ClusterOfPolicy(object)
	if !ours {
		return nil
	}
	uid := object.GetUID()
	if err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s, whose cluster is gone: %w", object.Kind, object.Name, err)
	}
	log.FromContext(ctx).Info("deleted", "object", title(object.Kind, client.ObjectKeyFromObject(object)), "cluster", cluster)
	return nil
}

// sweepPolicies deletes the policies of clusters that were deleted while no operator ran.
func (r *Reconciler) sweepPolicies(ctx context.Context) error {
	for _, kind := range policyKinds {
		list := &metav1.PartialObjectMetadataList{TypeMeta: policyMetadata(kind).TypeMeta}
		list.Kind += "List"
		err := r.Live.List(ctx, list, client.MatchingLabels{plan.LabelManagedBy: plan.ManagedBy})
		if err != nil {
			if !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) {
				log.FromContext(ctx).Error(err, "listing admission policies; those of clusters that are gone stay until the next start")
			}
			continue
		}
		for i := range list.Items {
			if err := r.sweepPolicy(ctx, kind, &list.Items[i]); err != nil {
				log.FromContext(ctx).Error(err, "looking for the cluster of an admission policy; it stays until the next start")
			}
		}
	}
	return nil
}

func (r *Reconciler) sweepPolicy(ctx context.Context, kind string, object *metav1.PartialObjectMetadata) error {
	key, ours := inject.ClusterOfPolicy(object)
	if !ours {
		return nil
	}
	err := r.Live.Get(ctx, key, &v1alpha1.PeerCacheCluster{})
	if apierrors.IsNotFound(err) {
		object.TypeMeta = policyMetadata(kind).TypeMeta // lists drop it
		return r.deletePolicy(ctx, object)
	}
	return err
}

func policyMetadata(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}}
}
