// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/status"
)

// fakeWatchdog has some missed pods, and evicts the first one unless there is an obstacle.
type fakeWatchdog struct {
	names    []string
	obstacle string
	asked    int
}

func (f *fakeWatchdog) Source() source.Source { return nil }

func (f *fakeWatchdog) Missed(context.Context, *v1alpha1.PeerCacheCluster) (pods []metav1.PartialObjectMetadata, _ error) {
	for _, name := range f.names {
		pods = append(pods, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "serving", Name: name}})
	}
	return pods, nil
}

func (f *fakeWatchdog) RecreateOne(
	_ context.Context, _ *v1alpha1.PeerCacheCluster, missed []metav1.PartialObjectMetadata,
) (*metav1.PartialObjectMetadata, string) {
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
			got := status.InjectionReady(p.Injection, p.Missed, "")
			if got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %s, want %s: %s", got.Reason, got.Message, test.reason, test.says)
			}
		})
	}
}
