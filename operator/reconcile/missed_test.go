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
)

// fakeEngines has some missed pods and evicts the first when asked, unless there is an obstacle.
type fakeEngines struct {
	names    []string
	obstacle string
	asked    int
}

func (f *fakeEngines) Source() source.Source { return nil }

func (f *fakeEngines) Missed(context.Context, *v1alpha1.PeerCacheCluster) (pods []metav1.PartialObjectMetadata, _ error) {
	for _, name := range f.names {
		pods = append(pods, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "serving", Name: name}})
	}
	return pods, nil
}

func (f *fakeEngines) RecreateOne(
	_ context.Context, _ *v1alpha1.PeerCacheCluster, missed []metav1.PartialObjectMetadata,
) (*metav1.PartialObjectMetadata, string) {
	f.asked++
	if f.obstacle != "" {
		return nil, f.obstacle
	}
	return &missed[0], ""
}

func TestRescue(t *testing.T) {
	const recreate = v1alpha1.MissedPodsRecreate
	for name, test := range map[string]struct {
		engines   fakeEngines
		mode      v1alpha1.Mode
		wish      v1alpha1.MissedPods
		injection injectionState
		asked     int
		reason    string
		says      string
	}{
		"none": {wish: recreate, reason: "WebhookReady"},
		"report": {engines: fakeEngines{names: []string{"a", "b", "c", "d", "e"}}, reason: "PodsMissed",
			says: "5 pods run without PeerCache although they ask for it, because the webhook was not reached when they were created or " +
				"their label came later (serving/a, serving/b, serving/c and 2 more): delete them"},
		"recreate": {engines: fakeEngines{names: []string{"a"}}, wish: recreate, asked: 1, reason: "PodsMissed",
			says: "(serving/a): they are recreated one by one"},
		"cannot": {engines: fakeEngines{names: []string{"a"}, obstacle: "pod serving/a is left alone: no"}, wish: recreate, asked: 1,
			reason: "PodsMissed", says: "pod serving/a is left alone: no; delete it by hand"},
		// Pods that are created anew would be missed again.
		"without webhook": {engines: fakeEngines{names: []string{"a"}}, wish: recreate, injection: webhookUntrusted, reason: "WebhookUntrusted"},
		"only planned":    {engines: fakeEngines{names: []string{"a"}}, wish: recreate, mode: v1alpha1.ModePlan, reason: "PodsMissed"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			r := &Reconciler{Engines: &test.engines, Events: recorder}
			p := &pass{cluster: &v1alpha1.PeerCacheCluster{}, injection: test.injection}
			p.cluster.Spec.Mode, p.cluster.Spec.Injection.MissedPods = test.mode, test.wish
			if err := r.rescue(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if test.engines.asked != test.asked || p.missed.beingRecreated != (test.asked > 0) || int(p.missed.count) != len(test.engines.names) {
				t.Errorf("asked %d times, want %d: %+v", test.engines.asked, test.asked, p.missed)
			}
			if evicted := len(recorder.Events); (evicted > 0) != (test.asked > 0 && test.engines.obstacle == "") {
				t.Errorf("%d events", evicted)
			}
			got := injectionReady(p.injection, p.missed, "")
			if got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %s, want %s: %s", got.Reason, got.Message, test.reason, test.says)
			}
		})
	}
}
