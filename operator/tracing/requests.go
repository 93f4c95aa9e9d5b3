// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Requests gives every request within a span a span of its own. A refusal of the API server is not an error of the span: many
// reads may fail as expected, and the step decides.
func Requests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		parent := trace.SpanFromContext(request.Context())
		if !parent.IsRecording() { // as for caches and leader election
			return next.RoundTrip(request)
		}
		ctx, span := parent.TracerProvider().Tracer(scope).Start(request.Context(), request.Method,
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
				attribute.String("http.request.method", request.Method), attribute.String("url.path", request.URL.Path)))
		defer span.End()
		response, err := next.RoundTrip(request.WithContext(ctx))
		if err != nil {
			return response, RecordError(span, err)
		}
		span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
		if response.StatusCode >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, response.Status)
		}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
