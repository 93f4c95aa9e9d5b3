// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/preflight"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=k8s.cni.cncf.io,resources=network-attachment-definitions,verbs=get
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaimtemplates,verbs=get

var templateKind = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"}

// remembered is how long something that was found is not looked for again: pod events come in bursts. What is
// missing is looked for on every pass.
const remembered = 30 * time.Second

// preflight gathers what the plan refers to, and judges it.
func (r *Reconciler) preflight(ctx context.Context, p *pass, desired *plan.Desired) (preflight.Report, error) {
	facts := preflight.Facts{
		Machines: p.facts.machines, Multus: true, DRA: true,
		Networks: map[types.NamespacedName]preflight.Network{}, Templates: map[types.NamespacedName]bool{},
	}
	networks, templates := preflight.References(p.cluster, desired.Groups)
	made := desired.Networks()
	for _, name := range networks {
		if network, ours := made[name]; ours {
			if _, _, err := r.lookUp(ctx, plan.NetworkKind, name); kindMissing(err) {
				facts.Multus = false
			} else if err != nil {
				return preflight.Report{}, err
			}
			facts.Networks[name] = preflight.Network{Resource: network.GetAnnotations()[plan.NetworkResource]}
			continue
		}
		found, annotations, err := r.lookUp(ctx, plan.NetworkKind, name)
		switch {
		case kindMissing(err):
			facts.Multus = false
		case err != nil:
			return preflight.Report{}, err
		case found:
			facts.Networks[name] = preflight.Network{Resource: annotations[plan.NetworkResource]}
		}
	}
	for _, name := range templates {
		found, _, err := r.lookUp(ctx, templateKind, name)
		switch {
		case kindMissing(err):
			facts.DRA = false
		case err != nil:
			return preflight.Report{}, err
		}
		facts.Templates[name] = found
	}
	return preflight.Check(p.cluster, desired, facts), nil
}

// lookUp asks the API server for the metadata of an object. There is no cache of such objects: their kinds may
// not exist, and only those that rails name matter.
func (r *Reconciler) lookUp(
	ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName,
) (bool, map[string]string, error) {
	if annotations, known := r.found.get(kind, name, r.Now()); known {
		return true, annotations, nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := r.Live.Get(ctx, name, object)
	switch {
	case apierrors.IsNotFound(err) && !kindMissing(err):
		return false, nil, nil
	case err != nil:
		return false, nil, fmt.Errorf("looking for %s %s: %w", kind.Kind, name, err)
	}
	r.found.put(kind, name, object.Annotations, r.Now())
	return true, object.Annotations, nil
}

// kindMissing also knows a kind that was removed while the operator ran, as when Multus is uninstalled: the operator
// still has the way to it, and the API server answers there as on any path that it does not know.
func kindMissing(err error) bool {
	return meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// finds remembers objects that were found.
type finds struct {
	mu   sync.Mutex
	list map[findKey]find
}

type findKey struct {
	kind schema.GroupVersionKind
	name types.NamespacedName
}

type find struct {
	annotations map[string]string
	at          time.Time
}

func (f *finds) get(kind schema.GroupVersionKind, name types.NamespacedName, now time.Time) (map[string]string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, there := f.list[findKey{kind, name}]
	return found.annotations, there && now.Sub(found.at) < remembered
}

// put also forgets what has become old, so that the list does not grow with networks that nobody names any more.
func (f *finds) put(kind schema.GroupVersionKind, name types.NamespacedName, annotations map[string]string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list == nil {
		f.list = map[findKey]find{}
	}
	for key, old := range f.list {
		if now.Sub(old.at) >= remembered {
			delete(f.list, key)
		}
	}
	f.list[findKey{kind, name}] = find{annotations, now}
}
