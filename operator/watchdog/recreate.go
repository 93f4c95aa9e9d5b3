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

const (
	// RecreateInterval is the interval between two pods of one cluster: an SGLang server takes long to load its model, and the other
	// servers carry its load meanwhile.
	RecreateInterval = 10 * time.Second
	// retryAfter is how long the pods of an owner are left alone after one was recreated and missed again.
	retryAfter = 10 * time.Minute
	// evictionTimeout bounds an eviction.
	evictionTimeout = 3 * time.Second
)

// history is what was tried. Another replica begins with an empty one, which costs at most one pod of every owner.
type history struct {
	clusters map[types.NamespacedName]attempt // the last attempt of each cluster
	owners   map[types.UID]time.Time          // the last eviction of a pod of each owner
	pods     map[types.UID]skip               // pods that are not read again for a while
}

// attempt is the last pass over a cluster's missed pods, with the reason why the first of them was left alone.
type attempt struct {
	at       time.Time
	obstacle string
}

type skip struct {
	reason string
	until  time.Time
}

func (a *history) forget(now time.Time) {
	maps.DeleteFunc(a.owners, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= retryAfter })
	maps.DeleteFunc(a.pods, func(_ types.UID, r skip) bool { return !now.Before(r.until) })
	maps.DeleteFunc(a.clusters, func(_ types.NamespacedName, t attempt) bool { return now.Sub(t.at) >= retryAfter })
}

// RecreateOne evicts and returns one of a cluster's missed pods, at most one in RecreateInterval. Otherwise obstacle is why the
// first pod is left alone, or "" while the interval lasts.
func (d *Watchdog) RecreateOne(
	ctx context.Context, c *v1alpha1.PeerCacheCluster, missed []corev1.Pod,
) (evicted *corev1.Pod, obstacle string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, key := d.now(), client.ObjectKeyFromObject(c)
	if last := d.history.clusters[key]; now.Sub(last.at) < RecreateInterval {
		return nil, last.obstacle
	}
	d.history.forget(now)
	for i := range missed {
		pod := &missed[i]
		reason := d.tryEvict(ctx, c, pod, now)
		if reason == "" {
			d.history.owners[metav1.GetControllerOf(pod).UID] = now
			evicted, obstacle = pod, ""
			break
		}
		if obstacle == "" {
			obstacle = fmt.Sprintf("pod %s/%s is left alone: %s", pod.Namespace, pod.Name, reason)
		}
	}
	d.history.clusters[key] = attempt{now, obstacle}
	return evicted, obstacle
}

// tryEvict evicts a pod, or returns a reason. It remembers reasons that depend on the pod alone, so that it does not read
// thousands of such pods repeatedly.
func (d *Watchdog) tryEvict(ctx context.Context, c *v1alpha1.PeerCacheCluster, pod *corev1.Pod, now time.Time) string {
	if known, ok := d.history.pods[pod.UID]; ok {
		return known.reason
	}
	if reason := d.skipReason(pod); reason != "" {
		return reason
	}
	reason, lasting := d.evict(ctx, c, pod)
	if reason != "" && lasting {
		d.history.pods[pod.UID] = skip{reason, now.Add(retryAfter)}
	}
	return reason
}

// skipReason returns why a pod is not recreated, as far as the cached metadata show.
func (d *Watchdog) skipReason(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return "no controller owns it, which would recreate it"
	case owner.Kind == "Node":
		return "it is a static pod of its machine"
	}
	// Creation times have a resolution of one second.
	if last, tried := d.history.owners[owner.UID]; tried && !pod.CreationTimestamp.Time.Before(last.Truncate(time.Second)) {
		return fmt.Sprintf("a pod of %s %s was recreated and missed again, so check why the API server does not reach the webhook",
			owner.Kind, owner.Name)
	}
	return ""
}

// evict deletes a pod within its PodDisruptionBudget, or returns a reason and whether it is lasting. It reads the pod first:
// the cache may be old, and lacks the spec that injection needs.
func (d *Watchdog) evict(ctx context.Context, c *v1alpha1.PeerCacheCluster, found *corev1.Pod) (reason string, lasting bool) {
	pod := &corev1.Pod{}
	if err := d.live.Get(ctx, client.ObjectKeyFromObject(found), pod); err != nil {
		return "reading it: " + err.Error(), false
	}
	if pod.UID != found.UID || !isMissed(pod) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return "it has changed meanwhile", false
	}
	facts, err := inject.Gather(ctx, d.live, d.live, c, pod.Namespace, d.options)
	if err != nil {
		return err.Error(), false
	}
	switch result := inject.Inject(pod, facts); {
	case !result.Injected:
		return "it would not be connected: " + result.SkipReason, true
	case result.Partly:
		return "it would not use the cache: " + result.Note, true
	}
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
		},
	}
	// The client retries an eviction that the budget refuses for minutes.
	ctx, cancel := context.WithTimeout(ctx, evictionTimeout)
	defer cancel()
	err = d.writer.SubResource("eviction").Create(ctx, pod, eviction)
	switch {
	case apierrors.IsTooManyRequests(err):
		return "its PodDisruptionBudget does not allow it now", false
	case apierrors.IsForbidden(err):
		return "the operator has no permission to evict pods of its namespace: set rbac.missedPods.enabled=true of the Helm chart, or apply " +
			"config/rights/missed-pods", true
	case err != nil:
		return "evicting it: " + err.Error(), false
	}
	log.FromContext(ctx).Info("evicted a pod that injection had missed", "pod", client.ObjectKeyFromObject(pod))
	return "", false
}
