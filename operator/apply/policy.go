// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/policy"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// A cluster's admission policy and its binding have no namespace, so they cannot have an owner in one, and no garbage
// collector deletes them. The operator does: DeletePolicies when it sees that the cluster is gone,
// DeleteOrphanedPolicies when the cluster was deleted while no operator ran, and DeleteFormerPolicies when another
// cluster has its name. Without the cluster a policy does nothing, because its parameter is missing.

// Policies returns the admission policy that a cluster requests, and its binding. They are untyped, because an older
// API server does not serve their kinds. limits are those of the cluster's own namespace: a policy can read none.
func Policies(
	cluster *v1alpha1.PeerCacheCluster, options inject.Options, driverMissing bool, limits []corev1.LimitRangeItem,
) []client.Object {
	if cluster.Spec.Injection.By != v1alpha1.InjectionByPolicy {
		return nil
	}
	facts, elsewhere := inject.FactsFor(cluster, cluster.Namespace, options), inject.FactsFor(cluster, "", options)
	facts.DriverMissing, facts.Admission.Limits = driverMissing, limits
	made, binding := policy.For(facts, elsewhere, cluster.Spec.Injection.NamespaceSelector)
	var objects []client.Object
	for _, object := range []client.Object{made, binding} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			panic(err) // types of Kubernetes can always be encoded
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects
}

// ownedBy says whether the operator created an object for a cluster.
func ownedBy(object metav1.Object, cluster *v1alpha1.PeerCacheCluster) bool {
	if object.GetNamespace() != "" {
		return metav1.IsControlledBy(object, cluster)
	}
	key, ours := policy.ClusterOf(object)
	return ours && key == client.ObjectKeyFromObject(cluster)
}

// DeletePolicies deletes the policy and the binding of a cluster that is gone.
func (a *Applier) DeletePolicies(ctx context.Context, cluster client.ObjectKey) error {
	for _, kind := range rights.PolicyKinds {
		object := policyMetadata(kind)
		err := a.Live.Get(ctx, client.ObjectKey{Name: policy.Name(cluster.Namespace, cluster.Name)}, object)
		// An operator that may not read policies has created none.
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the %s of %s: %w", kind, cluster, err)
		}
		if err := a.deletePolicy(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// DeleteFormerPolicies deletes the policy of a former cluster of this name, once. The operator does not see that a
// cluster is gone when it is at once created again, and the status of the new cluster does not know of the policy.
// applyExtras takes care of a policy that this cluster created or requests.
func (a *Applier) DeleteFormerPolicies(ctx context.Context, cluster *v1alpha1.PeerCacheCluster, memory *Memory) error {
	if memory.formerPoliciesDeleted || cluster.Spec.Injection.By == v1alpha1.InjectionByPolicy ||
		slices.ContainsFunc(cluster.Status.Objects, func(made v1alpha1.MadeObject) bool { return slices.Contains(rights.PolicyKinds, made.Kind) }) {
		return nil
	}
	err := a.DeletePolicies(ctx, client.ObjectKeyFromObject(cluster))
	memory.formerPoliciesDeleted = err == nil
	return err
}

func (a *Applier) deletePolicy(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	cluster, ours := policy.ClusterOf(object)
	if !ours {
		return nil
	}
	uid := object.GetUID()
	if err := a.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s, whose cluster is gone: %w", object.Kind, object.Name, err)
	}
	log.FromContext(ctx).Info("deleted", "object", Title(object.Kind, client.ObjectKeyFromObject(object)), "cluster", cluster)
	return nil
}

// DeleteOrphanedPolicies deletes the policies of clusters that were deleted while no operator ran.
func (a *Applier) DeleteOrphanedPolicies(ctx context.Context) error {
	for _, kind := range rights.PolicyKinds {
		list := &metav1.PartialObjectMetadataList{TypeMeta: policyMetadata(kind).TypeMeta}
		list.Kind += "List"
		err := a.Live.List(ctx, list, client.MatchingLabels{plan.LabelManagedBy: plan.ManagedBy})
		if err != nil {
			if !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) {
				log.FromContext(ctx).Error(err, "listing admission policies; those of clusters that are gone stay until the next start")
			}
			continue
		}
		for i := range list.Items {
			if err := a.deleteOrphanedPolicy(ctx, kind, &list.Items[i]); err != nil {
				log.FromContext(ctx).Error(err, "looking for the cluster of an admission policy; it stays until the next start")
			}
		}
	}
	return nil
}

func (a *Applier) deleteOrphanedPolicy(ctx context.Context, kind string, object *metav1.PartialObjectMetadata) error {
	key, ours := policy.ClusterOf(object)
	if !ours {
		return nil
	}
	err := a.Live.Get(ctx, key, &v1alpha1.PeerCacheCluster{})
	if apierrors.IsNotFound(err) {
		object.TypeMeta = policyMetadata(kind).TypeMeta // lists clear it
		return a.deletePolicy(ctx, object)
	}
	return err
}

func policyMetadata(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}}
}
