// SPDX-License-Identifier: Apache-2.0

// Package otlp is a collector for tests: it accepts OTLP over HTTP and keeps the spans.
//
//	collector := otlp.Start(t)
//	... send to collector.URL + "/v1/traces" ...
//	collector.Spans()
package otlp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span, and the attributes of its sender.
type Span struct {
	*trace.Span
	Sender map[string]string
}

// Collector keeps the spans that it receives.
type Collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []Span
}

// Start starts a collector. A request that is not OTLP, or has another path, fails the test.
func Start(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if kind := request.Header.Get("Content-Type"); err != nil || request.URL.Path != "/v1/traces" || kind != "application/x-protobuf" {
			t.Errorf("%s %s with %s: %v", request.Method, request.URL.Path, kind, err)
			writer.WriteHeader(http.StatusBadRequest)
			return
		}
		c.keep(&sent)
		writer.Header().Set("Content-Type", "application/x-protobuf") // an empty answer accepts all spans
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *Collector) keep(sent *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.GetResourceSpans() {
		sender := Attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, Span{span, sender})
			}
		}
	}
}

// Spans returns the received spans in the order in which they ended.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Attributes returns the attributes with string values.
func Attributes(list []*common.KeyValue) map[string]string {
	attributes := map[string]string{}
	for _, attribute := range list {
		if text, ok := attribute.GetValue().GetValue().(*common.AnyValue_StringValue); ok {
			attributes[attribute.GetKey()] = text.StringValue
		}
	}
	return attributes
}
