// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
)

var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

func meta(changes ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	pod := podMeta()
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: "serving", Name: "engine-0", UID: "pod", CreationTimestamp: metav1.NewTime(noon),
		Labels: map[string]string{v1alpha1.LabelInject: "kv", "app": "sglang"}, Annotations: map[string]string{"note": "long"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Other"}, {Kind: "ReplicaSet", Name: "engine", UID: "owner", Controller: new(true)}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func annotated(key string) func(*metav1.PartialObjectMetadata) {
	return func(p *metav1.PartialObjectMetadata) { p.Annotations[key] = "x" }
}

func terminating(p *metav1.PartialObjectMetadata) { p.DeletionTimestamp = &metav1.Time{Time: noon} }

func TestIsMissed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		missed bool
	}{
		"nothing happened": {func(*metav1.PartialObjectMetadata) {}, true},
		"connected":        {annotated(names.AnnotationInjected), false},
		"with a reason":    {annotated(names.AnnotationSkipReason), false},
		"terminating":      {terminating, false},
		"not labelled":     {func(p *metav1.PartialObjectMetadata) { p.Labels = nil }, false},
		"empty label":      {func(p *metav1.PartialObjectMetadata) { p.Labels[v1alpha1.LabelInject] = "" }, false},
	} {
		pod := meta(test.change)
		if isMissed(pod) != test.missed {
			t.Errorf("%s: missed %t, want %t", name, !test.missed, test.missed)
		}
		kept, err := trimPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if object, ok := kept.(*metav1.PartialObjectMetadata); !ok || isMissed(object) != test.missed {
			t.Errorf("%s: the cache keeps too little: %+v", name, kept)
		}
	}
}

func TestTrimPod(t *testing.T) {
	kept, _ := trimPod(meta(func(p *metav1.PartialObjectMetadata) { p.Annotations[v1alpha1.AnnotationClusterNamespace] = "caches" }))
	pod, _ := kept.(*metav1.PartialObjectMetadata)
	if len(pod.Labels) != 1 || len(pod.Annotations) != 1 || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != "owner" {
		t.Errorf("%+v", pod)
	}
	if requests := clusterOf(t.Context(), pod); len(requests) != 1 || requests[0].String() != "caches/kv" {
		t.Errorf("cluster %v", requests)
	}
	if pod.UID != "pod" || pod.Kind != "Pod" || !pod.CreationTimestamp.Time.Equal(noon) {
		t.Errorf("%+v", pod)
	}
}

// TestOnlyMissedPodsCauseReconciles checks that events of connected pods, of which there are thousands, cause no
// reconcile.
func TestOnlyMissedPodsCauseReconciles(t *testing.T) {
	changed, missed, connected := missedChanged(), meta(), meta(annotated(names.AnnotationInjected))
	for name, test := range map[string]struct{ got, want bool }{
		"created missed":    {changed.Create(event.CreateEvent{Object: missed}), true},
		"created connected": {changed.Create(event.CreateEvent{Object: connected}), false},
		"goes on missed":    {changed.Update(event.UpdateEvent{ObjectOld: missed, ObjectNew: missed}), false},
		"is deleted":        {changed.Update(event.UpdateEvent{ObjectOld: missed, ObjectNew: meta(terminating)}), true},
		"goes on connected": {changed.Update(event.UpdateEvent{ObjectOld: connected, ObjectNew: connected}), false},
		"deleted missed":    {changed.Delete(event.DeleteEvent{Object: missed}), true},
		"deleted connected": {changed.Delete(event.DeleteEvent{Object: connected}), false},
	} {
		if test.got != test.want {
			t.Errorf("%s: %t, want %t", name, test.got, test.want)
		}
	}
}

func TestSkipReason(t *testing.T) {
	evicted := noon.Add(-30*time.Second + 500*time.Millisecond)
	w := newWatchdog(nil, nil, nil, inject.Options{})
	w.history.owners = map[types.UID]time.Time{"owner": evicted}
	at := func(when time.Time) func(*metav1.PartialObjectMetadata) {
		return func(p *metav1.PartialObjectMetadata) { p.CreationTimestamp = metav1.NewTime(when) }
	}
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		says   string
	}{
		"of a controller":        {at(evicted.Add(-time.Minute)), ""},
		"missed once more":       {at(evicted.Truncate(time.Second)), "was recreated and missed again"},
		"by itself":              {func(p *metav1.PartialObjectMetadata) { p.OwnerReferences = nil }, "no controller owns it"},
		"owned, not controlled":  {func(p *metav1.PartialObjectMetadata) { p.OwnerReferences = p.OwnerReferences[:1] }, "no controller owns it"},
		"of the machine's files": {func(p *metav1.PartialObjectMetadata) { p.OwnerReferences[1].Kind = "Node" }, "static pod"},
	} {
		got := w.skipReason(meta(test.change))
		if (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
	w.history.forget(noon.Add(retryAfter))
	if reason := w.skipReason(meta(at(noon))); reason != "" {
		t.Errorf("after a while it is tried again, but: %s", reason)
	}
}
