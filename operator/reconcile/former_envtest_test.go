// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/fleet"
)

// TestRecreatedClusterWaitsForFormerObjects: no garbage collector runs here, so the objects of the former cluster stay until the
// test deletes them.
func TestRecreatedClusterWaitsForFormerObjects(t *testing.T) {
	b := newBench(t)
	b.must(b.Delete(t.Context(), func() client.Object {
		former := b.cluster()
		b.pass()
		b.reconciler.memories.get(former).noteFleet(&fleet.Fleet{Members: 7, Engines: 3}, nil, time.Now())
		return former
	}()))
	b.cluster(provisioned) // the device plug-in would be created first, and the former cluster had none
	if wrote := b.pass(); len(wrote) != 0 || len(b.get().Status.Conditions) != 0 {
		t.Errorf("wrote %q and said %+v, though what is in the way is being deleted", wrote, b.get().Status.Conditions)
	}
	if heard := b.reconciler.memories.get(b.get()).fleet; heard != nil {
		t.Errorf("what the former cluster's members said is taken for the new one's: %+v", heard)
	}

	b.reconciler.Now = func() time.Time { return time.Now().Add(apply.FormerTimeout + time.Second) }
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "NameConflict", "belongs to an earlier PeerCacheCluster of this name")

	for _, left := range []client.Object{&appsv1.DaemonSet{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{},
		&corev1.Secret{}, &networkingv1.NetworkPolicy{}} {
		b.must(b.DeleteAllOf(t.Context(), left, client.InNamespace(b.namespace), client.MatchingLabels{v1alpha1.LabelCluster: "demo"}))
	}
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
}

func TestRecreatedClusterDeletesFormerPolicy(t *testing.T) {
	b := policyBench(t)
	b.pass()
	if !b.hasPolicy() {
		t.Fatal("the former cluster has no policy")
	}
	b.must(b.Delete(t.Context(), b.get()))
	b.cluster() // the webhook connects, before the operator knows that the former one is gone
	b.pass()
	if b.hasPolicy() {
		t.Error("the new cluster asks for no policy, and keeps the former one's")
	}
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("another look writes %q", wrote)
	}
}

// staleCache returns PeerCacheClusters in an earlier state, as a cache does that has not received a write.
type staleCache struct {
	client.Client
	was *v1alpha1.PeerCacheCluster
}

func (l *staleCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if cluster, ok := into.(*v1alpha1.PeerCacheCluster); ok && l.was != nil {
		l.was.DeepCopyInto(cluster)
		return nil
	}
	return l.Client.Get(ctx, key, into, options...)
}

func TestStatusIsWrittenOnceWithAStaleCache(t *testing.T) {
	b := newBench(t)
	b.cluster()
	cache := &staleCache{Client: b.reconciler.Client, was: b.get()}
	b.reconciler.Client = cache
	b.pass()
	if len(b.events()) == 0 {
		t.Error("no event of the first status")
	}
	if wrote, said := b.pass(), b.events(); len(wrote)+len(said) != 0 {
		t.Errorf("another look before the cache has heard of the first status writes %q and records %q", wrote, said)
	}
	b.setCounts("default", 2, 2, 1)
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "MembersStarting", "1/2")
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("before the cache has heard of the second one, %q is written again", wrote)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Mode, s.Memory.Pool = v1alpha1.ModePlan, resource.MustParse("2Gi")
	})
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("before the cache has heard of another spec, %q is written", wrote)
	}
	cache.was = b.get()
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "PlanOnly", "by 1 changes")
	if plan := b.get().Status.Plan; plan == nil || len(plan.Changes) == 0 {
		t.Errorf("the plan of the new spec is %+v", plan)
	}
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("before the cache has heard of the new spec's status, %q is written again", wrote)
	}
	cache.was = nil
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("once the cache has caught up, %q is written again", wrote)
	}
}
