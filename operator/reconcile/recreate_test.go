// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/status"
)

// fakeWatchdog has some missed pods, and evicts the first one unless there is an obstacle.
type fakeWatchdog struct {
	names    []string
	partly   []string
	obstacle string
	asked    int
}

func (f *fakeWatchdog) Source() source.Source { return nil }

func (f *fakeWatchdog) Missed(context.Context, *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error) {
	return podsNamed(f.names), nil
}

func (f *fakeWatchdog) Partly(context.Context, *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error) {
	return podsNamed(f.partly), nil
}

func (f *fakeWatchdog) Engines(context.Context, *v1alpha1.PeerCacheCluster) ([]inject.Engine, error) {
	return []inject.Engine{}, nil
}

func podsNamed(names []string) (pods []corev1.Pod) {
	for _, name := range names {
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "serving", Name: name}})
	}
	return pods
}

func (f *fakeWatchdog) RecreateOne(
	_ context.Context, _ *v1alpha1.PeerCacheCluster, missed []corev1.Pod,
) (*corev1.Pod, string) {
	f.asked++
	if f.obstacle != "" {
		return nil, f.obstacle
	}
	return &missed[0], ""
}

func TestRecreateMissed(t *testing.T) {
	const recreate = v1alpha1.MissedPodsRecreate
	for name, test := range map[string]struct {
		watchdog  fakeWatchdog
		mode      v1alpha1.Mode
		wish      v1alpha1.MissedPods
		injection status.Injection
		asked     int
		reason    string
		says      string
	}{
		"none": {wish: recreate, reason: "WebhookReady"},
		"report": {watchdog: fakeWatchdog{names: []string{"a", "b", "c", "d", "e"}}, reason: "PodsMissed",
			says: "5 pods run without PeerCache although they ask for it, because the webhook was not reached when they were created or " +
				"their label came later (serving/a, serving/b, serving/c and 2 more): delete them"},
		"recreate": {watchdog: fakeWatchdog{names: []string{"a"}}, wish: recreate, asked: 1, reason: "PodsMissed",
			says: "(serving/a): they are recreated one by one"},
		"cannot": {watchdog: fakeWatchdog{names: []string{"a"}, obstacle: "pod serving/a is left alone: no"}, wish: recreate, asked: 1,
			reason: "PodsMissed", says: "pod serving/a is left alone: no; delete it by hand"},
		"partly":            {watchdog: fakeWatchdog{partly: []string{"a", "b", "c", "d"}}, wish: recreate, reason: "PodsPartly", says: "(serving/a, serving/b, serving/c and 1 more)"},
		"missed and partly": {watchdog: fakeWatchdog{names: []string{"a"}, partly: []string{"b"}}, reason: "PodsMissed", says: "(serving/a)"},
		// The successors would be missed again.
		"without webhook": {watchdog: fakeWatchdog{names: []string{"a"}}, wish: recreate, injection: status.WebhookUntrusted, reason: "WebhookUntrusted"},
		"only planned":    {watchdog: fakeWatchdog{names: []string{"a"}}, wish: recreate, mode: v1alpha1.ModePlan, reason: "PodsMissed"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			r := &Reconciler{Watchdog: &test.watchdog, Events: recorder}
			p := &pass{Observed: status.Observed{Cluster: &v1alpha1.PeerCacheCluster{}, Injection: test.injection}}
			p.Cluster.Spec.Mode, p.Cluster.Spec.Injection.MissedPods = test.mode, test.wish
			if err := r.recreateMissed(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if test.watchdog.asked != test.asked || p.Missed.BeingRecreated != (test.asked > 0) || int(p.Missed.Count) != len(test.watchdog.names) {
				t.Errorf("asked %d times, want %d: %+v", test.watchdog.asked, test.asked, p.Missed)
			}
			if evicted := len(recorder.Events); (evicted > 0) != (test.asked > 0 && test.watchdog.obstacle == "") {
				t.Errorf("%d events", evicted)
			}
			got := status.InjectionReady(p.Injection, p.Missed, p.Partly, "")
			if got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %s, want %s: %s", got.Reason, got.Message, test.reason, test.says)
			}
		})
	}
}
