// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

// There is no garbage collector here, so the former cluster's objects stay until the test deletes them.
func TestAClusterMadeAnewWaitsForTheObjectsOfTheFormerOne(t *testing.T) {
	b := newBench(t)
	b.must(b.Delete(t.Context(), func() client.Object {
		former := b.cluster()
		b.pass()
		b.reconciler.memories.of(former).hear(&fleet.Fleet{Members: 7, Engines: 3}, time.Now())
		return former
	}()))
	b.cluster(provisioned) // the device plug-in would come first, and there was none
	if wrote := b.pass(); len(wrote) != 0 || len(b.get().Status.Conditions) != 0 {
		t.Errorf("wrote %q and said %+v, though what is in the way is being deleted", wrote, b.get().Status.Conditions)
	}
	if heard := b.reconciler.memories.of(b.get()).fleet; heard != nil {
		t.Errorf("what the former cluster's nodes said is taken for the new one's: %+v", heard)
	}

	b.reconciler.Now = func() time.Time { return time.Now().Add(clearedWithin + time.Second) }
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "NameConflict", "belongs to a former PeerCacheCluster of this name")

	for _, left := range []client.Object{&appsv1.DaemonSet{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{}} {
		b.must(b.DeleteAllOf(t.Context(), left, client.InNamespace(b.namespace), client.MatchingLabels{v1alpha1.LabelCluster: "demo"}))
	}
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
}

func TestAClusterMadeAnewLosesThePolicyOfTheFormerOne(t *testing.T) {
	b := policyBench(t)
	b.pass()
	if !b.hasPolicy() {
		t.Fatal("the former cluster has no policy")
	}
	b.must(b.Delete(t.Context(), b.get()))
	b.cluster() // by the webhook, before anybody has heard that the former one is gone
	b.pass()
	if b.hasPolicy() {
		t.Error("the new cluster asks for no policy, and keeps the former one's")
	}
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("another look writes %q", wrote)
	}
}

// late reads PeerCacheClusters as they were once, as a cache does that has not heard of a write.
type late struct {
	client.Client
	was *v1alpha1.PeerCacheCluster
}

func (l *late) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if cluster, ok := into.(*v1alpha1.PeerCacheCluster); ok && l.was != nil {
		l.was.DeepCopyInto(cluster)
		return nil
	}
	return l.Client.Get(ctx, key, into, options...)
}

func TestAStatusIsWrittenOnceThoughTheCacheIsLate(t *testing.T) {
	b := newBench(t)
	b.cluster()
	cache := &late{Client: b.reconciler.Client, was: b.get()}
	b.reconciler.Client = cache
	b.pass()
	if len(b.events()) == 0 {
		t.Error("no event of the first status")
	}
	if wrote, said := b.pass(), b.events(); len(wrote)+len(said) != 0 {
		t.Errorf("another look before the cache has heard of the first status writes %q and records %q", wrote, said)
	}
	b.count("default", 2, 2, 1)
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "NodesStarting", "1/2")
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
