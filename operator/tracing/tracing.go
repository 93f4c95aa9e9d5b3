// SPDX-License-Identifier: Apache-2.0

// Package tracing sends spans of the operator's work to an OpenTelemetry collector, on request:
//
//	traces, err := tracing.Start("http://collector.monitoring:4318", version)
//	defer traces.Stop()
//	reconciler.Tracer = traces.Tracer()
//	kubeconfig.Wrap(tracing.Requests)
//
// Without an endpoint, there is no exporter and no goroutine, and a span costs almost nothing.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	scope = "github.com/peercache/peercache/operator"
	// tracesPath is the path for OTLP over HTTP below the address of the collector.
	tracesPath = "/v1/traces"
	// shutdownTimeout bounds the last sending of spans when the operator stops.
	shutdownTimeout = 3 * time.Second
	// sendTimeout bounds one try to send spans, with its answer.
	sendTimeout = 10 * time.Second
	// longestAnswer bounds what is read of an answer. The answer of a collector is empty, or says in a sentence which spans it
	// refuses; the exporter keeps all of it in memory.
	longestAnswer = 64 << 10
)

// Check returns what is wrong with the address of a collector.
func Check(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return fmt.Errorf("%w: write it as http://collector:4318", err)
	case parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Hostname() == "":
		return errors.New("is not an address of a collector: write scheme, host and port, as in http://collector:4318")
	case parsed.RawQuery != "", parsed.Fragment != "", parsed.User != nil:
		return errors.New("has more than scheme, host, port and path: write it as http://collector:4318")
	case strings.HasSuffix(strings.TrimRight(parsed.Path, "/"), tracesPath):
		return fmt.Errorf("ends with %s, which is added to it: write %s", tracesPath,
			strings.TrimSuffix(strings.TrimRight(endpoint, "/"), tracesPath))
	}
	return nil
}

// Traces sends spans to a collector, or drops them.
type Traces struct{ provider *sdktrace.TracerProvider }

// Start begins to send spans. Without an endpoint it drops them. Check must have accepted the endpoint.
func Start(endpoint, version string) (Traces, error) {
	if endpoint == "" {
		return Traces{}, nil
	}
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return Traces{}, fmt.Errorf("the collector's address: %w", err)
	}
	target := parsed.JoinPath(tracesPath)
	// The exporter connects for each batch, so an unreachable collector does not delay the start.
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(target.String()),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: bounded(http.DefaultTransport), Timeout: sendTimeout}))
	if err != nil {
		return Traces{}, fmt.Errorf("setting up spans for %s: %w", target, err)
	}
	own := []attribute.KeyValue{attribute.String("service.name", "peercache-operator"), attribute.String("service.version", version)}
	if pod, err := os.Hostname(); err == nil {
		own = append(own, attribute.String("service.instance.id", pod))
	}
	attributes, err := resource.Merge(resource.Default(), resource.NewSchemaless(own...))
	if err != nil {
		return Traces{}, fmt.Errorf("describing the operator in spans: %w", err)
	}
	log := ctrl.Log.WithName("tracing")
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Error(err, "spans are lost: does a collector take OTLP over HTTP there?", "endpoint", target.String())
	}))
	log.Info("sending spans", "endpoint", target.String())
	return Traces{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(attributes))}, nil
}

// Tracer returns the tracer of the operator.
func (t Traces) Tracer() trace.Tracer {
	if t.provider == nil {
		return noop.Tracer{}
	}
	return t.provider.Tracer(scope)
}

// Stop sends the remaining spans.
func (t Traces) Stop() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Step runs do in a span below the span of the context. Without one, it only runs do.
func Step(ctx context.Context, name string, do func(context.Context) error) error {
	ctx, span := trace.SpanFromContext(ctx).TracerProvider().Tracer(scope).Start(ctx, name)
	defer span.End()
	return RecordError(span, do(ctx))
}

// RecordError sets the status of a span after an error, and returns the error.
func RecordError(span trace.Span, err error) error {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
