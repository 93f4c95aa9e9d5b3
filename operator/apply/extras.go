// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// applyExtras writes the objects that the spec requests besides the nodes, and deletes those that it no longer requests. It
// skips a kind that the API server does not serve: preflight reports that, and a later pass tries again. It also skips an
// object that nodes do not need and that the operator may not write; a condition reports that.
//
// Objects of such kinds cannot be listed while the kind is missing, and an informer for each is not worth its memory. So
// status.objects remembers what was created. The status is written in the same pass, before a later pass could forget an object.
func (a *Applier) applyExtras(ctx context.Context, run *Run, desired *plan.Desired) error {
	made, err := a.createExtras(ctx, run, desired.Extras)
	run.Objects = made
	for _, old := range run.Cluster.Status.Objects {
		if slices.Contains(made, old) {
			continue
		}
		if err == nil {
			err = a.deleteExtra(ctx, run, old)
		}
		if err != nil {
			run.Objects = append(run.Objects, old) // a later pass tries again
		}
	}
	return err
}

// createExtras returns the objects that exist, also when it fails before the last one.
func (a *Applier) createExtras(ctx context.Context, run *Run, extras []client.Object) ([]v1alpha1.MadeObject, error) {
	var made []v1alpha1.MadeObject
	for _, object := range extras {
		err := a.applyOne(ctx, run, object)
		if KindMissing(err) {
			run.UnknownKinds = append(run.UnknownKinds, rights.KindOf(object))
			continue
		}
		if rights.MaySkip(err, object) {
			run.ForbiddenKinds = append(run.ForbiddenKinds, rights.KindOf(object))
			if old := referenceTo(object); slices.Contains(run.Cluster.Status.Objects, old) {
				made = append(made, old) // created while the operator had the right
			}
			continue
		}
		if err != nil {
			return made, err
		}
		made = append(made, referenceTo(object))
	}
	return made, nil
}

func referenceTo(object client.Object) v1alpha1.MadeObject {
	version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	return v1alpha1.MadeObject{APIVersion: version, Kind: kind, Name: object.GetName()}
}

// KindMissing says whether an error means that the API server does not serve a kind. That includes a kind that was
// removed while the operator ran, such as when Multus is uninstalled: the operator still has the mapping, and the API
// server answers as for any unknown path.
func KindMissing(err error) bool {
	return meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// keyOf is the name and the namespace, if any, of an object in status.objects.
func keyOf(cluster *v1alpha1.PeerCacheCluster, made v1alpha1.MadeObject) client.ObjectKey {
	if slices.Contains(rights.PolicyKinds, made.Kind) {
		return client.ObjectKey{Name: made.Name}
	}
	return client.ObjectKey{Namespace: cluster.Namespace, Name: made.Name}
}

func (a *Applier) deleteExtra(ctx context.Context, run *Run, old v1alpha1.MadeObject) error {
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: old.APIVersion, Kind: old.Kind}}
	key := keyOf(run.Cluster, old)
	name := Title(old.Kind, key)
	err := a.Live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if apierrors.IsForbidden(err) {
		a.recordLeftover(run, name, rights.KindOf(object), err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if !ownedBy(object, run.Cluster) {
		return nil // somebody else created it again
	}
	uid := object.GetUID()
	err = a.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &uid})
	if apierrors.IsForbidden(err) {
		a.recordLeftover(run, name, rights.KindOf(object), err)
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s, which the spec no longer requests: %w", name, err)
	}
	run.Changed = true
	delete(run.Memory.objects, name)
	log.FromContext(ctx).Info("deleted", "object", name)
	a.Events.Eventf(run.Cluster, object, corev1.EventTypeNormal, "ObjectRemoved", "Prune",
		"deleted %s, because the spec no longer asks for it", name)
	return nil
}

// recordLeftover records an event for an object that is no longer requested and that the operator may not delete, or
// even read.
func (a *Applier) recordLeftover(run *Run, name string, kind schema.GroupKind, err error) {
	a.Events.Eventf(run.Cluster, nil, corev1.EventTypeWarning, "ObjectLeft", "Prune", "the spec no longer requests %s, and the operator has no permission to "+
		"delete it (%v): delete it by hand, or %s", name, err, rights.GrantFor(kind, run.Cluster.Namespace))
}
