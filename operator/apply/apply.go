// SPDX-License-Identifier: Apache-2.0

// Package apply writes the objects of a plan by server-side apply, and deletes objects that the operator created and that no
// plan wants any more.
//
//	applier := &apply.Applier{Client: c, Live: live, Events: recorder, Now: time.Now}
//	run := &apply.Run{Cluster: cluster, Memory: &memory, DaemonSets: daemonSets}
//	err := applier.Apply(ctx, run, desired)
//	err = applier.Prune(ctx, run, desired)
//	err = applier.ApplyPoolRemovals(ctx, run, desired, apply.AtRest)
//
//	apply.go     compare each object with the stored one, and write those that differ
//	repair.go    backoff of repairs: how often changes by others are undone
//	extras.go    objects besides the nodes, which status.objects remembers
//	prune.go     DaemonSets of groups that the spec no longer has
//	removals.go  DaemonSets that remove the files of pools
//	former.go    wait for the garbage collector after a cluster is created again under the same name
//	policy.go    admission policies, which no garbage collector deletes
//	token.go     the Secret with the nodes' token; tenants.go the Secret of tenants
//	preview.go   the changes that Apply and Prune would make
//
// Costs: one read from the cache for each object, and no request to the API server while nothing differs. Untyped objects
// (networks, policies, monitors) are not cached and cost one GET in each pass; the two Secrets cost one GET each in a
// SecretReadInterval.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/drift"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// FieldManager is the field manager of everything that the operator writes.
const FieldManager = "peercache-operator"

// Applier writes the objects of clusters. It has no state of its own: Memory belongs to the caller.
type Applier struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Live reads from the API server, past the cache.
	Live client.Reader
	// Events records what happens to a cluster.
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// Memory is what the operator remembers of one cluster's objects between passes. The zero value is ready to use: an
// operator that takes over starts with it.
type Memory struct {
	// objects holds a record of each object that was written, by the object's description.
	objects records
	// token is the state of the token's Secret at the last read; nil before the first one.
	token *tokenState
	// tenants is when the Secret of tenants was last read and found valid.
	tenants time.Time
	// formerPoliciesDeleted says that no admission policy of a former cluster of this name is left.
	formerPoliciesDeleted bool
}

// Run is one application of a plan to one cluster: its input, and its results. The results are valid also when it ended
// with an error.
type Run struct {
	Cluster *v1alpha1.PeerCacheCluster
	Memory  *Memory
	// DaemonSets are the DaemonSets of the cluster's nodes, by name. Apply and Prune update the map, because the cache
	// shows writes only after a while.
	DaemonSets map[string]*appsv1.DaemonSet
	// PoolRemovals are those that remove the files of pools, by name.
	PoolRemovals map[string]*appsv1.DaemonSet

	Objects        []v1alpha1.MadeObject // created besides the nodes
	UnknownKinds   []schema.GroupKind    // requested kinds that the API server does not serve
	ForbiddenKinds []schema.GroupKind    // requested kinds that the operator may not write
	Token          *plan.Token           // from the Secret that the operator keeps; nil when it keeps none
	// Changed says that the run wrote or deleted an object.
	Changed bool
	// Deadlines are the times at which the run has more to do: a repair that waits, or the next step of a rotation.
	Deadlines []time.Time
}

// Apply writes everything that the plan wants. Prune then deletes the DaemonSets that it no longer wants.
func (a *Applier) Apply(ctx context.Context, run *Run, desired *plan.Desired) error {
	if err := a.waitForFormer(ctx, run, desired); err != nil {
		return err
	}
	if err := a.ensureToken(ctx, run, desired.Token); err != nil {
		return err
	}
	if err := a.ensureTenantSecret(ctx, run, desired.Tenants); err != nil {
		return err
	}
	if err := a.applyExtras(ctx, run, desired); err != nil {
		return err
	}
	return a.applyObjects(ctx, run, desired)
}

// applyObjects writes every desired object that differs from the stored one.
func (a *Applier) applyObjects(ctx context.Context, run *Run, desired *plan.Desired) error {
	for _, object := range desired.Objects() {
		if err := a.applyOne(ctx, run, object); err != nil {
			return err
		}
	}
	return nil
}

// change is a desired object that differs from the stored one.
type change struct {
	name  string
	want  map[string]any
	live  client.Object    // nil when there is none
	have  map[string]any   // live, encoded
	first drift.Difference // its Path is "" when the only difference is a field that is no longer wanted
	// foreign says that somebody else changed or deleted the object: the operator wants what it applied last, and that
	// is not what is stored.
	foreign bool
	plain   map[string]any // want without the annotation of its digest
	hash    string         // the digest
}

// compare returns the change that a desired object needs; nil when it needs none.
func (a *Applier) compare(ctx context.Context, run *Run, object client.Object) (*change, error) {
	name := describe(object)
	want, err := encode(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	plain := runtime.DeepCopyJSON(want)
	hash, err := addHash(want)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	live, err := a.existing(ctx, run, object)
	if err != nil {
		return nil, err
	}
	known := run.Memory.objects
	if live == nil {
		return &change{name: name, want: want, foreign: known[name] != nil, plain: plain, hash: hash}, nil
	}
	if !ownedBy(live, run.Cluster) {
		return nil, &plan.Problem{Reason: "NameConflict", Message: fmt.Sprintf(
			"%s exists and does not belong to this cluster: rename or delete it, or choose another metadata.name", name)}
	}
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	first := drift.FindMeaningful(known.expected(name, hash, plain), have)
	applied := live.GetAnnotations()[v1alpha1.AnnotationAppliedHash] == hash
	if first.Path == "" && applied {
		return nil, nil
	}
	return &change{name: name, want: want, live: live, have: have, first: first, foreign: applied, plain: plain, hash: hash}, nil
}

// existing reads the stored object; nil when there is none. It fails when the object is that of a former cluster.
func (a *Applier) existing(ctx context.Context, run *Run, object client.Object) (client.Object, error) {
	name := describe(object)
	live, err := a.read(ctx, object)
	if apierrors.IsForbidden(err) {
		return nil, rights.Forbidden("read", name, rights.KindOf(object), run.Cluster.Namespace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if live != nil && ownedByFormer(live, run.Cluster) {
		return nil, a.formerProblem(name, run.Cluster)
	}
	return live, nil
}

func (a *Applier) applyOne(ctx context.Context, run *Run, object client.Object) error {
	change, err := a.compare(ctx, run, object)
	if err != nil || change == nil {
		return err
	}
	known, now := &run.Memory.objects, a.Now()
	if change.foreign {
		if wait := known.of(change.name).repairDelay(now); wait > 0 {
			run.Deadlines = append(run.Deadlines, now.Add(wait))
			return nil
		}
	}
	after, err := a.write(ctx, run, change.name, change.want)
	if err != nil {
		return err
	}
	run.Changed = true
	made := known.of(change.name)
	altered := made.noteStored(change.hash, change.plain, after)
	switch {
	case altered.Path != "":
		a.Events.Eventf(run.Cluster, change.live, corev1.EventTypeWarning, "Altered", "Apply", "%s is not stored as it was applied: %s. "+
			"Remove the admission webhook or policy that alters it, or the field of the PeerCacheCluster that this API server does "+
			"not support", change.name, altered)
	case change.foreign:
		made.noteRepair(now)
		a.recordRepair(run.Cluster, change, made.wait)
	case change.live != nil:
		a.recordChange(run.Cluster, change, after)
	}
	return nil
}

// recordChange records an event for an object that a changed spec changes.
func (a *Applier) recordChange(cluster *v1alpha1.PeerCacheCluster, c *change, after map[string]any) {
	if !c.first.Telling() {
		if gone := drift.FindRemoved(c.have, after); gone.Path != "" {
			c.first = gone
		}
	}
	if c.first.Path != "" { // else only the encoding changed
		a.Events.Eventf(cluster, c.live, corev1.EventTypeNormal, "Changed", "Apply", "%s changes: %s", c.name, c.first)
	}
}

// write applies an object and returns it as stored.
func (a *Applier) write(ctx context.Context, run *Run, name string, want map[string]any) (map[string]any, error) {
	applied := &unstructured.Unstructured{Object: want}
	err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner(FieldManager), client.ForceOwnership)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil, &plan.Problem{Reason: "Rejected", Message: fmt.Sprintf(
			"the API server rejects %s: correct the field of spec from which it is built: %v", name, err)}
	case apierrors.IsForbidden(err):
		return nil, rights.Forbidden("write", name, rights.KindOf(applied), run.Cluster.Namespace, err)
	case err != nil:
		return nil, fmt.Errorf("applying %s: %w", name, err)
	}
	log.FromContext(ctx).Info("applied", "object", name)
	if applied.GetKind() == "DaemonSet" && applied.GetLabels()[plan.LabelComponent] == plan.ComponentNode {
		daemonSet := &appsv1.DaemonSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, daemonSet); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", name, err)
		}
		run.DaemonSets[daemonSet.Name] = daemonSet
	}
	return applied.Object, nil
}

// read gets the object from the cache and, when the cache has none, from the API server: the cache holds only objects
// with the operator's label, and the operator must not take over an object of somebody else.
func (a *Applier) read(ctx context.Context, object client.Object) (client.Object, error) {
	kind := object.GetObjectKind().GroupVersionKind()
	fresh, err := a.Client.Scheme().New(kind)
	if _, untyped := object.(*unstructured.Unstructured); untyped || runtime.IsNotRegisteredError(err) { // not cached: the API server may not serve the kind
		fresh, err = &unstructured.Unstructured{}, nil
		fresh.GetObjectKind().SetGroupVersionKind(kind)
	}
	if err != nil {
		return nil, err
	}
	live, ok := fresh.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", fresh)
	}
	key := client.ObjectKeyFromObject(object)
	err = a.Client.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		err = a.Live.Get(ctx, key, live)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	live.GetObjectKind().SetGroupVersionKind(kind) // clients clear it
	return live, nil
}

// encode turns a typed object into the fields to apply. It leaves out status, which is not the operator's, and fields
// without a value, for which the API server may have a default.
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

// addHash adds the digest of the whole object to its annotations. The digest tells a field that the operator no longer
// wants (the digest differs) from one that somebody else added (the digest is the same, and the field is theirs).
func addHash(want map[string]any) (string, error) {
	content, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:16])
	return hash, unstructured.SetNestedField(want, hash, "metadata", "annotations", v1alpha1.AnnotationAppliedHash)
}

func describe(object client.Object) string {
	return Title(object.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(object))
}

// Title names an object in messages: kind, namespace if any, and name.
func Title(kind string, key client.ObjectKey) string {
	if key.Namespace == "" {
		return kind + " " + key.Name
	}
	return kind + " " + key.String()
}
