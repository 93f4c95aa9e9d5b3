// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
)

var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

func meta(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{}
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

func annotated(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = "x" }
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }

func TestIsMissed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		missed bool
	}{
		"nothing happened": {func(*corev1.Pod) {}, true},
		"connected":        {annotated(names.AnnotationInjected), false},
		"with a reason":    {annotated(names.AnnotationSkipReason), false},
		"terminating":      {terminating, false},
		"not labelled":     {func(p *corev1.Pod) { p.Labels = nil }, false},
		"empty label":      {func(p *corev1.Pod) { p.Labels[v1alpha1.LabelInject] = "" }, false},
	} {
		pod := meta(test.change)
		if isMissed(pod) != test.missed {
			t.Errorf("%s: missed %t, want %t", name, !test.missed, test.missed)
		}
		kept, err := trimPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if object, ok := kept.(*corev1.Pod); !ok || isMissed(object) != test.missed {
			t.Errorf("%s: the cache keeps too little: %+v", name, kept)
		}
	}
}

func TestTrimPod(t *testing.T) {
	kept, _ := trimPod(meta(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationClusterNamespace] = "caches" }))
	pod, _ := kept.(*corev1.Pod)
	if len(pod.Labels) != 1 || len(pod.Annotations) != 1 || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != "owner" {
		t.Errorf("%+v", pod)
	}
	if requests := clusterOf(t.Context(), pod); len(requests) != 1 || requests[0].String() != "caches/kv" {
		t.Errorf("cluster %v", requests)
	}
	if pod.UID != "pod" || !pod.CreationTimestamp.Time.Equal(noon) {
		t.Errorf("%+v", pod)
	}
}

// TestHeldOutPodsNeedNotAttach: they are connected, are not missed, and no engine is waited for.
func TestHeldOutPodsNeedNotAttach(t *testing.T) {
	for group, attaches := range map[string]bool{"true": false, "false": true, "": true} {
		kept, _ := trimPod(meta(annotated(names.AnnotationInjected), func(p *corev1.Pod) { p.Annotations[names.AnnotationHoldout] = group }))
		pod, _ := kept.(*corev1.Pod)
		if isConnected(pod) != attaches || isMissed(pod) {
			t.Errorf("holdout %q: attaches %t, missed %t", group, isConnected(pod), isMissed(pod))
		}
	}
}

func TestIsPartly(t *testing.T) {
	pod := meta(annotated(names.AnnotationPartly))
	kept, _ := trimPod(pod)
	object, _ := kept.(*corev1.Pod)
	if !isPartly(object) || isMissed(object) {
		t.Errorf("partly %t, missed %t", isPartly(object), isMissed(object))
	}
	for name, other := range map[string]*corev1.Pod{
		"connected": meta(annotated(names.AnnotationInjected)), "missed": meta(), "terminating": meta(annotated(names.AnnotationPartly), terminating),
	} {
		if isPartly(other) {
			t.Errorf("%s: partly", name)
		}
	}
}

// TestTrimPodKeepsEngines checks that the cache has what tells whether an engine should be attached, and no arguments.
func TestTrimPodKeepsEngines(t *testing.T) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}
	kept, _ := trimPod(meta(annotated(names.AnnotationInjected), func(p *corev1.Pod) {
		p.Annotations[names.AnnotationContainers] = "main=flags,draft=environment"
		p.Spec.NodeName, p.Status.Conditions = "gpu-1", []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, ready}
		p.Spec.Containers = []corev1.Container{
			{Name: "main", Args: []string{"python3", "-m", "sglang.launch_server", "--tp", "8"}}, {Name: "draft"}, {Name: "other"},
		}
	}))
	pod, _ := kept.(*corev1.Pod)
	if len(pod.Spec.Containers) != 0 || len(pod.Status.Conditions) != 1 || pod.Annotations[ranksKey] != "9" || !isConnected(pod) {
		t.Errorf("%+v", pod)
	}
	if got, want := inject.EngineOf(pod, 9), (inject.Engine{Pod: "serving/engine-0", Machine: "gpu-1", Ranks: 9, State: inject.EngineReady, Since: noon}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestOnlyPodsThatLackSomethingCauseReconciles checks that events of connected pods, of which there are thousands, cause no
// reconcile.
func TestOnlyPodsThatLackSomethingCauseReconciles(t *testing.T) {
	changed, missed, connected, partly := changed(), meta(), meta(annotated(names.AnnotationInjected)), meta(annotated(names.AnnotationPartly))
	for name, test := range map[string]struct{ got, want bool }{
		"created missed":    {changed.Create(event.CreateEvent{Object: missed}), true},
		"created connected": {changed.Create(event.CreateEvent{Object: connected}), false},
		"created partly":    {changed.Create(event.CreateEvent{Object: partly}), true},
		"deleted partly":    {changed.Delete(event.DeleteEvent{Object: partly}), true},
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
	at := func(when time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(when) }
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"of a controller":        {at(evicted.Add(-time.Minute)), ""},
		"missed once more":       {at(evicted.Truncate(time.Second)), "was recreated and missed again"},
		"by itself":              {func(p *corev1.Pod) { p.OwnerReferences = nil }, "no controller owns it"},
		"owned, not controlled":  {func(p *corev1.Pod) { p.OwnerReferences = p.OwnerReferences[:1] }, "no controller owns it"},
		"of the machine's files": {func(p *corev1.Pod) { p.OwnerReferences[1].Kind = "Node" }, "static pod"},
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
