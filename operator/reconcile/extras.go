// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// +kubebuilder:rbac:groups=k8s.cni.cncf.io,resources=network-attachment-definitions,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;servicemonitors;prometheusrules,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=delete

// applyExtras writes what was asked for besides the nodes, and deletes what no longer is. A kind that does not exist
// is passed over: preflight reports it, and a later pass finds it.
//
// Objects of such kinds cannot be listed while their kind is missing, and are not worth an informer each, so
// status.objects remembers what was made. It is written before the next pass could forget to delete.
func (r *Reconciler) applyExtras(ctx context.Context, p *pass, desired *plan.Desired) error {
	made, err := r.makeExtras(ctx, p, desired.Extras)
	p.objects = made
	for _, old := range p.cluster.Status.Objects {
		if slices.Contains(made, old) {
			continue
		}
		if err == nil {
			err = r.deleteExtra(ctx, p, old)
		}
		if err != nil {
			p.objects = append(p.objects, old) // a later pass deletes or makes it
		}
	}
	return err
}

// makeExtras returns what is there, also when the rest cannot be made.
func (r *Reconciler) makeExtras(ctx context.Context, p *pass, extras []client.Object) ([]v1alpha1.MadeObject, error) {
	var made []v1alpha1.MadeObject
	for _, object := range extras {
		err := r.applyOne(ctx, p, object)
		if kindMissing(err) {
			p.absent = append(p.absent, object.GetObjectKind().GroupVersionKind().GroupKind())
			continue
		}
		if err != nil {
			return made, err
		}
		made = append(made, madeObject(object))
	}
	return made, nil
}

func madeObject(object client.Object) v1alpha1.MadeObject {
	version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	return v1alpha1.MadeObject{APIVersion: version, Kind: kind, Name: object.GetName()}
}

// placeOf is where an object was made.
func placeOf(cluster *v1alpha1.PeerCacheCluster, made v1alpha1.MadeObject) client.ObjectKey {
	if slices.Contains(policyKinds, made.Kind) {
		return client.ObjectKey{Name: made.Name}
	}
	return client.ObjectKey{Namespace: cluster.Namespace, Name: made.Name}
}

func (r *Reconciler) deleteExtra(ctx context.Context, p *pass, old v1alpha1.MadeObject) error {
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: old.APIVersion, Kind: old.Kind}}
	key := placeOf(p.cluster, old)
	name := title(old.Kind, key)
	err := r.Live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if !belongs(object, p.cluster) {
		return nil // somebody else made it anew
	}
	uid := object.GetUID()
	err = r.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s, which is no longer asked for: %w", name, err)
	}
	p.changed = true
	delete(r.memories.of(p.cluster).objects, name)
	log.FromContext(ctx).Info("deleted", "object", name)
	r.Events.Eventf(p.cluster, object, corev1.EventTypeNormal, "ObjectRemoved", "Prune",
		"deleted %s, because the spec no longer asks for it", name)
	return nil
}
