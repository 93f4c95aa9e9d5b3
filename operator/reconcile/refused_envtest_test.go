// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// refusePod acts as the DaemonSet controller whose pod the API server refuses.
func (b *bench) refusePod(ago time.Duration) {
	b.Helper()
	daemonSet := b.daemonSet("default")
	owner := *metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	err := b.Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: daemonSet.Name + "-x", Labels: daemonSet.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: daemonSet.Spec.Template.Spec,
	})
	if err == nil {
		b.Fatal("the pod is admitted")
	}
	at := metav1.NewTime(b.reconciler.Now().Add(-ago))
	b.must(b.Create(b.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: b.namespace, GenerateName: daemonSet.Name + "-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: b.namespace, Name: daemonSet.Name, UID: daemonSet.UID},
		Reason:         "FailedCreate", Type: corev1.EventTypeWarning, Message: "Error creating: " + err.Error(),
		FirstTimestamp: at, LastTimestamp: at, Count: 1, Source: corev1.EventSource{Component: "daemonset-controller"},
	}))
	b.setCounts("default", 3, 0, 0)
	daemonSet = b.daemonSet("default")
	daemonSet.Status.CurrentNumberScheduled = 0
	b.must(b.Status().Update(b.Context(), daemonSet))
}

func TestPodsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse func(*bench)
		says   string
	}{
		{"by pod security", func(b *bench) {
			namespace := &corev1.Namespace{}
			b.must(b.Get(b.Context(), client.ObjectKey{Name: b.namespace}, namespace))
			namespace.Labels["pod-security.kubernetes.io/enforce"] = "baseline"
			b.must(b.Update(b.Context(), namespace))
		}, "pod-security.kubernetes.io/enforce=privileged"},
		{"by a quota", func(b *bench) {
			quota := &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "team"},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.memory": resource.MustParse("1Mi")}},
			}
			b.must(b.Create(b.Context(), quota))
			quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{"requests.memory": resource.MustParse("0")}
			b.must(b.Status().Update(b.Context(), quota)) // as the controller of quotas does
		}, "raise the ResourceQuota of namespace "},
		{"by a limit range", func(b *bench) {
			b.must(b.Create(b.Context(), &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "team"},
				Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
					Type: corev1.LimitTypePod, Max: corev1.ResourceList{"memory": resource.MustParse("1Mi")}}}},
			}))
		}, "raise the LimitRange of namespace "},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newRestricted(t, "nodes", "pods", "tokens")
			b.cluster()
			b.pass()
			c.refuse(b)
			b.refusePod(time.Second)
			b.pass()
			b.condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, "PodsRefused", c.says)
			b.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "MembersBroken", "of which 3 are missing")
			if again := b.pass(); len(again) != 0 {
				t.Errorf("a pass writes again: %q", again)
			}
			b.setCounts("default", 3, 3, 3) // somebody has mended it
			b.pass()
			b.condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, "NoFaults", "")
		})
	}
}
