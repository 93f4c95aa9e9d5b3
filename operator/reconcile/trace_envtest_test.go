// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// failingWatchdog cannot list the missed pods.
type failingWatchdog struct{ fakeWatchdog }

func (*failingWatchdog) Missed(context.Context, *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error) {
	return nil, errors.New("no eyes")
}

func TestPassIsTraced(t *testing.T) {
	b := newBench(t)
	exporter := tracetest.NewInMemoryExporter()
	b.reconciler.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
	// pass checks the span of one pass, and returns the names of its steps in order, and the last span.
	pass := func(result, refused string) ([]string, tracetest.SpanStub) {
		t.Helper()
		exporter.Reset()
		_, err := b.reconciler.Reconcile(b.Context(), ctrl.Request{
			NamespacedName: client.ObjectKey{Namespace: b.namespace, Name: "demo"}})
		spans := exporter.GetSpans()
		whole := spans[len(spans)-1]
		about := attribute.NewSet(whole.Attributes...)
		for key, want := range map[attribute.Key]string{
			attributeNamespace: b.namespace, attributeCluster: "demo", attributeResult: result, attributeRefused: refused,
		} {
			if got, _ := about.Value(key); got.AsString() != want {
				t.Errorf("%s is %q, want %q", key, got.AsString(), want)
			}
		}
		if whole.Name != "reconcile" || (whole.Status.Code == codes.Error) != (err != nil) || err != nil && whole.Status.Description != err.Error() {
			t.Errorf("%s ended with %+v, the pass with %v", whole.Name, whole.Status, err)
		}
		var steps []string
		for _, step := range spans[:len(spans)-1] {
			steps = append(steps, step.Name)
			if step.Parent.SpanID() != whole.SpanContext.SpanID() {
				t.Errorf("%s is not part of the pass", step.Name)
			}
		}
		if len(steps) == 0 {
			return nil, whole
		}
		return steps, spans[len(spans)-2]
	}
	want := func(what string, got []string, steps ...string) {
		t.Helper()
		if !slices.Equal(got, steps) {
			t.Errorf("%s takes the steps %v, want %v", what, got, steps)
		}
	}
	follow := []string{"discover", "bypass", "update", "refusals", "injection", "rescue", "ask", "report"}

	steps, _ := pass("gone", "")
	want("no cluster", steps)
	cluster := b.cluster()
	steps, _ = pass("changing", "")
	want("a new cluster", steps, append([]string{"gather", "plan", "preflight", "apply", "prune"}, follow...)...)

	b.reconciler.Watchdog = &failingWatchdog{}
	steps, last := pass("failed", "")
	want("a pass that fails", steps, "gather", "plan", "preflight", "apply", "prune", "discover", "bypass", "update", "refusals", "injection", "rescue")
	if last.Status.Code != codes.Error || last.Status.Description != "no eyes" {
		t.Errorf("the step that failed ended with %+v", last.Status)
	}
	b.reconciler.Watchdog = nil

	b.change(func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Mode = v1alpha1.ModePlan })
	steps, _ = pass("stable", "")
	want("mode Plan", steps, append([]string{"gather", "plan", "preflight", "preview"}, follow...)...)

	b.change(func(spec *v1alpha1.PeerCacheClusterSpec) { spec.PodTemplate = template(`{"hostNetwrk": true}`) })
	steps, _ = pass("changing", "PodTemplateInvalid")
	want("a spec that is refused", steps, append([]string{"gather", "plan"}, follow...)...)

	b.must(b.Delete(b.Context(), cluster))
}
