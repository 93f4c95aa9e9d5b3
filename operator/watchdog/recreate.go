// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
)

// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create

const (
	// Every is how often a pod of one cluster is recreated: an SGLang server takes long to load its model, and the
	// others must carry the load meanwhile.
	Every = 10 * time.Second
	// again is how long the pods of an owner are left alone after one was recreated and missed once more.
	again = 10 * time.Minute
	// evictWithin bounds an eviction.
	evictWithin = 3 * time.Second
)

// attempts remembers what was tried. Another replica that takes over begins anew, which costs at most one pod of
// every owner.
type attempts struct {
	turns  map[types.NamespacedName]turn // by cluster
	owners map[types.UID]time.Time       // when a pod of theirs was evicted
	pods   map[types.UID]refusal         // what need not be looked at again for a while
}

// turn is the last look at a cluster's missed pods, and why the first of them was left alone.
type turn struct {
	at       time.Time
	obstacle string
}

type refusal struct {
	reason string
	until  time.Time
}

func (a *attempts) forget(now time.Time) {
	maps.DeleteFunc(a.owners, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= again })
	maps.DeleteFunc(a.pods, func(_ types.UID, r refusal) bool { return !now.Before(r.until) })
	maps.DeleteFunc(a.turns, func(_ types.NamespacedName, t turn) bool { return now.Sub(t.at) >= again })
}

// RecreateOne evicts one of a cluster's missed pods, when it is time for it, and returns it. Otherwise it says why
// the first of them is left alone, "" when it is merely not its turn.
func (d *Watchdog) RecreateOne(
	ctx context.Context, c *v1alpha1.PeerCacheCluster, missed []metav1.PartialObjectMetadata,
) (evicted *metav1.PartialObjectMetadata, obstacle string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, key := d.now(), client.ObjectKeyFromObject(c)
	if last := d.tried.turns[key]; now.Sub(last.at) < Every {
		return nil, last.obstacle
	}
	d.tried.forget(now)
	for i := range missed {
		pod := &missed[i]
		reason := d.try(ctx, c, pod, now)
		if reason == "" {
			d.tried.owners[metav1.GetControllerOf(pod).UID] = now
			evicted, obstacle = pod, ""
			break
		}
		if obstacle == "" {
			obstacle = fmt.Sprintf("pod %s/%s is left alone: %s", pod.Namespace, pod.Name, reason)
		}
	}
	d.tried.turns[key] = turn{now, obstacle}
	return evicted, obstacle
}

// try evicts a pod, or says why not. A reason that lies in the pod is remembered, so that thousands of pods that
// cannot be helped are not read again and again.
func (d *Watchdog) try(ctx context.Context, c *v1alpha1.PeerCacheCluster, pod *metav1.PartialObjectMetadata, now time.Time) string {
	if known, ok := d.tried.pods[pod.UID]; ok {
		return known.reason
	}
	if reason := d.refuses(pod); reason != "" {
		return reason
	}
	reason, lasting := d.evict(ctx, c, pod)
	if reason != "" && lasting {
		d.tried.pods[pod.UID] = refusal{reason, now.Add(again)}
	}
	return reason
}

// refuses says why a pod is not recreated by what is known of it here.
func (d *Watchdog) refuses(pod *metav1.PartialObjectMetadata) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return "no controller owns it, which would create it anew"
	case owner.Kind == "Node":
		return "it is a static pod of its machine"
	}
	// Creation times are whole seconds.
	if last, tried := d.tried.owners[owner.UID]; tried && !pod.CreationTimestamp.Time.Before(last.Truncate(time.Second)) {
		return fmt.Sprintf("a pod of %s %s was recreated and missed again, so look why the API server does not reach the webhook",
			owner.Kind, owner.Name)
	}
	return ""
}

// evict has a pod deleted within its PodDisruptionBudget, or says why not and whether that will stay
// so. It reads the pod first: what is in the cache may be old, and only all of it tells what it would become.
func (d *Watchdog) evict(ctx context.Context, c *v1alpha1.PeerCacheCluster, found *metav1.PartialObjectMetadata) (reason string, lasting bool) {
	pod := &corev1.Pod{}
	if err := d.live.Get(ctx, client.ObjectKeyFromObject(found), pod); err != nil {
		return "reading it: " + err.Error(), false
	}
	if pod.UID != found.UID || !isMissed(pod) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return "it has changed meanwhile", false
	}
	facts, err := inject.Gather(ctx, d.live, c, pod.Namespace, d.options)
	if err != nil {
		return err.Error(), false
	}
	if result := inject.Inject(pod, facts); !result.Injected {
		return "it would not be connected: " + result.SkipReason, true
	}
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
		},
	}
	// The client itself repeats an eviction that is refused for the moment, for minutes.
	ctx, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	err = d.writer.SubResource("eviction").Create(ctx, pod, eviction)
	switch {
	case apierrors.IsTooManyRequests(err):
		return "its PodDisruptionBudget does not allow it now", false
	case err != nil:
		return "evicting it: " + err.Error(), false
	}
	log.FromContext(ctx).Info("evicted a pod that injection had missed", "pod", client.ObjectKeyFromObject(pod))
	return "", false
}
