// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Requests puts every request that is part of a span's work into a span of its own. What the API server refuses is no error
// yet: much is asked for because it may not be there, and the step that asks says when that is one.
func Requests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		above := trace.SpanFromContext(request.Context())
		if !above.IsRecording() { // caches and leader election
			return next.RoundTrip(request)
		}
		ctx, span := above.TracerProvider().Tracer(scope).Start(request.Context(), request.Method,
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
				attribute.String("http.request.method", request.Method), attribute.String("url.path", request.URL.Path)))
		defer span.End()
		response, err := next.RoundTrip(request.WithContext(ctx))
		if err != nil {
			return response, Note(span, err)
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
