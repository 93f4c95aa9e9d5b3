// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/preflight"
	"github.com/peercache/peercache/operator/rights"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=k8s.cni.cncf.io,resources=network-attachment-definitions,verbs=get
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaimtemplates,verbs=get

var templateKind = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"}

// lookupTTL is how long an object that was found is not looked up again: pod events come in bursts. A missing object is
// looked up in every pass.
const lookupTTL = 30 * time.Second

// preflight looks up what the plan refers to, and checks it.
func (r *Reconciler) preflight(ctx context.Context, p *pass, desired *plan.Desired) (preflight.Report, error) {
	facts := preflight.Facts{
		Machines: p.Machines, MachinesUnread: r.Injection.Namespaced(), Multus: true, DRA: true,
		Networks: map[types.NamespacedName]preflight.Network{}, Templates: map[types.NamespacedName]bool{},
	}
	networks, templates := preflight.References(p.Cluster, desired.Groups)
	made := desired.Networks()
	for _, name := range networks {
		if network, ours := made[name]; ours {
			if _, _, err := r.lookUp(ctx, plan.NetworkKind, name); apply.KindMissing(err) {
				facts.Multus = false
			} else if err != nil {
				return preflight.Report{}, err
			}
			facts.Networks[name] = preflight.Network{Resource: network.GetAnnotations()[plan.NetworkResource]}
			continue
		}
		found, annotations, err := r.lookUp(ctx, plan.NetworkKind, name)
		switch {
		case apply.KindMissing(err):
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
		case apply.KindMissing(err):
			facts.DRA = false
		case err != nil:
			return preflight.Report{}, err
		}
		facts.Templates[name] = found
	}
	return preflight.Check(p.Cluster, desired, facts), nil
}

// lookUp reads the metadata of an object from the API server. The manager's cache does not hold such objects: the API
// server may not serve their kinds, and only those that rails name matter.
func (r *Reconciler) lookUp(
	ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName,
) (bool, map[string]string, error) {
	if annotations, known := r.lookups.get(kind, name, r.Now()); known {
		return true, annotations, nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := r.Live.Get(ctx, name, object)
	switch {
	case apierrors.IsNotFound(err) && !apply.KindMissing(err):
		return false, nil, nil
	case apierrors.IsForbidden(err):
		return false, nil, rights.Forbidden("read", apply.Title(kind.Kind, name), kind.GroupKind(), name.Namespace, err)
	case err != nil:
		return false, nil, fmt.Errorf("looking for %s %s: %w", kind.Kind, name, err)
	}
	r.lookups.put(kind, name, object.Annotations, r.Now())
	return true, object.Annotations, nil
}

// lookupCache remembers objects that were found.
type lookupCache struct {
	mu   sync.Mutex
	list map[lookupKey]lookup
}

type lookupKey struct {
	kind schema.GroupVersionKind
	name types.NamespacedName
}

type lookup struct {
	annotations map[string]string
	at          time.Time
}

func (f *lookupCache) get(kind schema.GroupVersionKind, name types.NamespacedName, now time.Time) (map[string]string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, there := f.list[lookupKey{kind, name}]
	return found.annotations, there && now.Sub(found.at) < lookupTTL
}

// put also forgets entries that have expired, so that the cache does not grow with networks that no rail names any
// more.
func (f *lookupCache) put(kind schema.GroupVersionKind, name types.NamespacedName, annotations map[string]string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list == nil {
		f.list = map[lookupKey]lookup{}
	}
	for key, old := range f.list {
		if now.Sub(old.at) >= lookupTTL {
			delete(f.list, key)
		}
	}
	f.list[lookupKey{kind, name}] = lookup{annotations, now}
}
