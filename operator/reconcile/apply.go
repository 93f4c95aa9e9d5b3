// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// FieldManager owns the fields that the operator applies.
const FieldManager = "peercache-operator"

// apply writes every desired object that differs from what is there. Before each write the object is
// compared, so that a cluster that is as it should be costs the API server nothing.
func (r *Reconciler) apply(ctx context.Context, p *pass, desired *plan.Desired) error {
	for _, object := range desired.Objects() {
		if err := r.applyOne(ctx, p, object); err != nil {
			return err
		}
	}
	return nil
}

// change is a desired object that differs from what is there.
type change struct {
	name  string
	want  map[string]any
	live  client.Object  // nil when there is none
	have  map[string]any // live, encoded
	first difference     // its path is "" when there is nothing to add or to alter, but a field is no longer wanted
	// foreign says that somebody else changed or deleted the object: it is not what the operator applied last, and what
	// the operator wants has not changed.
	foreign bool
	plain   map[string]any // want without its digest
	hash    string         // that digest
}

// compare finds out whether an object has to be written; nil says that it is as it should be.
func (r *Reconciler) compare(ctx context.Context, p *pass, object client.Object) (*change, error) {
	name := describe(object)
	want, err := encode(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	plain := runtime.DeepCopyJSON(want)
	hash, err := stamp(want)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	live, err := r.present(ctx, p, object)
	if err != nil {
		return nil, err
	}
	known := r.memories.of(p.cluster).objects
	if live == nil {
		return &change{name: name, want: want, foreign: known[name] != nil, plain: plain, hash: hash}, nil
	}
	if !belongs(live, p.cluster) {
		return nil, &plan.Problem{Reason: "NameConflict", Message: fmt.Sprintf(
			"%s exists and does not belong to this cluster: rename or delete it, or choose another metadata.name", name)}
	}
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	first := telling(known.expected(name, hash, plain), have)
	applied := live.GetAnnotations()[v1alpha1.AnnotationAppliedHash] == hash
	if first.path == "" && applied {
		return nil, nil
	}
	return &change{name: name, want: want, live: live, have: have, first: first, foreign: applied, plain: plain, hash: hash}, nil
}

// present is what there is of an object, nil when there is none, and an error when it is a former cluster's.
func (r *Reconciler) present(ctx context.Context, p *pass, object client.Object) (client.Object, error) {
	name := describe(object)
	live, err := r.find(ctx, object)
	if apierrors.IsForbidden(err) {
		return nil, &plan.Problem{Reason: "Forbidden", Message: fmt.Sprintf(
			"the API server does not let the operator read %s, check the operator's RBAC: %v", name, err)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if live != nil && ofFormer(live, p.cluster) {
		return nil, r.former(name, p.cluster)
	}
	return live, nil
}

func (r *Reconciler) applyOne(ctx context.Context, p *pass, object client.Object) error {
	change, err := r.compare(ctx, p, object)
	if err != nil || change == nil {
		return err
	}
	known, now := r.memories.of(p.cluster).objects, r.Now()
	if change.foreign {
		if wait := known.of(change.name).repairIn(now); wait > 0 {
			p.waiting = append(p.waiting, now.Add(wait))
			return nil
		}
	}
	after, err := r.write(ctx, p, change.name, change.want)
	if err != nil {
		return err
	}
	p.changed = true
	made := known.of(change.name)
	altered := made.note(change.hash, change.plain, after)
	switch {
	case altered.path != "":
		r.Events.Eventf(p.cluster, change.live, corev1.EventTypeWarning, "Altered", "Apply", "%s is not stored as it was applied: %s. "+
			"Remove the admission webhook or policy that alters it, or the field of the PeerCacheCluster that this API server does "+
			"not support", change.name, altered)
	case change.foreign:
		made.repairedAt(now)
		r.tellRepair(p.cluster, change, made.wait)
	case change.live != nil:
		r.tellChange(p.cluster, change, after)
	}
	return nil
}

// tellChange records what a changed spec changes.
func (r *Reconciler) tellChange(cluster *v1alpha1.PeerCacheCluster, c *change, after map[string]any) {
	if c.first.path == "" {
		c.first = dropped(c.have, after)
	}
	if c.first.path != "" { // else the operator writes the same in another way
		r.Events.Eventf(cluster, c.live, corev1.EventTypeNormal, "Changed", "Apply", "%s changes: %s", c.name, c.first)
	}
}

// write applies, notes the result where later steps look, since the cache learns of it only after a while, and returns it.
func (r *Reconciler) write(ctx context.Context, p *pass, name string, want map[string]any) (map[string]any, error) {
	applied := &unstructured.Unstructured{Object: want}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner(FieldManager), client.ForceOwnership)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil, &plan.Problem{Reason: "Rejected", Message: fmt.Sprintf(
			"the API server does not accept %s, correct the field of spec that it stems from: %v", name, err)}
	case apierrors.IsForbidden(err):
		return nil, &plan.Problem{Reason: "Forbidden", Message: fmt.Sprintf(
			"the API server does not let the operator write %s, check quotas and the operator's RBAC: %v", name, err)}
	case err != nil:
		return nil, fmt.Errorf("applying %s: %w", name, err)
	}
	log.FromContext(ctx).Info("applied", "object", name)
	if applied.GetKind() == "DaemonSet" && applied.GetLabels()[plan.LabelComponent] == plan.ComponentNode {
		daemonSet := &appsv1.DaemonSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, daemonSet); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", name, err)
		}
		p.facts.daemonSets[daemonSet.Name] = daemonSet
	}
	return applied.Object, nil
}

// find reads the object from the cache and, where the cache has none, from the API server: the cache holds
// only what carries the operator's label, and an object of someone else must not be taken over.
func (r *Reconciler) find(ctx context.Context, object client.Object) (client.Object, error) {
	kind := object.GetObjectKind().GroupVersionKind()
	fresh, err := r.Client.Scheme().New(kind)
	if _, untyped := object.(*unstructured.Unstructured); untyped || runtime.IsNotRegisteredError(err) { // never cached: the kind may not exist
		fresh, err = &unstructured.Unstructured{}, nil
		fresh.GetObjectKind().SetGroupVersionKind(kind)
	}
	if err != nil {
		return nil, err
	}
	live, ok := fresh.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", fresh)
	}
	key := client.ObjectKeyFromObject(object)
	err = r.Client.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, live)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	live.GetObjectKind().SetGroupVersionKind(kind) // clients drop it
	return live, nil
}

// encode turns a typed object into what is applied: without status, which is not the operator's, and without fields that
// have no value, for which the API server may have a default.
func encode(object client.Object) (map[string]any, error) {
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(want, "status")
	unstructured.RemoveNestedField(want, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(want, "spec", "template", "metadata", "creationTimestamp")
	dropNulls(want)
	return want, nil
}

func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, field any) bool { return field == nil })
		for _, field := range value {
			dropNulls(field)
		}
	case []any:
		for _, element := range value {
			dropNulls(element)
		}
	}
}

// stamp notes the digest of the whole object in its annotations. It tells a field that is no longer wanted
// (the digest differs) from one that somebody else added (it does not, and the field is theirs).
func stamp(want map[string]any) (string, error) {
	content, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:16])
	return hash, unstructured.SetNestedField(want, hash, "metadata", "annotations", v1alpha1.AnnotationAppliedHash)
}

func describe(object client.Object) string {
	return title(object.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(object))
}

// title names an object in messages. Few kinds are without namespaces.
func title(kind string, key client.ObjectKey) string {
	if key.Namespace == "" {
		return kind + " " + key.Name
	}
	return kind + " " + key.String()
}
