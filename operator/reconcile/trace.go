// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/peercache/peercache/operator/tracing"
)

// Attributes of the span of a pass; docs/tracing-and-logs.md explains them.
const (
	attributeNamespace = "k8s.namespace.name"
	attributeCluster   = "peercache.cluster"
	attributeResult    = "peercache.result"
	attributeRefused   = "peercache.refused"
)

func (r *Reconciler) begin(ctx context.Context, request ctrl.Request) (context.Context, trace.Span) {
	tracer := r.Tracer
	if tracer == nil {
		tracer = noop.Tracer{}
	}
	return tracer.Start(ctx, "reconcile", trace.WithAttributes(
		attribute.String(attributeNamespace, request.Namespace), attribute.String(attributeCluster, request.Name)))
}

// step takes one step of a pass, in a child span.
func (r *Reconciler) step(ctx context.Context, p *pass, name string, do func(context.Context, *pass) error) error {
	return tracing.Step(ctx, name, func(ctx context.Context) error { return do(ctx, p) })
}

// The results of a pass.
const (
	resultStable   = "stable"
	resultChanging = "changing"
	resultDeleting = "deleting"
	resultGone     = "gone"
	resultFailed   = "failed"
)

// outcome is the result of a pass, and the time to the next one; 0 when only an event triggers it.
type outcome struct {
	word  string
	again time.Duration
}

func resultOf(o outcome, err error) attribute.KeyValue {
	if err != nil {
		o.word = resultFailed
	}
	return attribute.String(attributeResult, o.word)
}
