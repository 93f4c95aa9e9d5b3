// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collected "go.opentelemetry.io/proto/otlp/trace/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/peercache/peercache/internal/otlp"
)

func TestSpansReachTheCollector(t *testing.T) {
	collector := otlp.Start(t)
	traces, err := Start(collector.URL+"/", "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := traces.Tracer().Start(t.Context(), "reconcile")
	if err := Step(ctx, "apply", func(context.Context) error { return errors.New("the API server is down") }); err == nil {
		t.Error("the step's error is lost")
	}
	span.End()
	traces.Stop()

	spans := collector.Spans()
	if len(spans) != 2 {
		t.Fatalf("%d spans arrived", len(spans))
	}
	step, root := spans[0], spans[1]
	if step.Name != "apply" || root.Name != "reconcile" || !bytes.Equal(step.ParentSpanId, root.SpanId) || !bytes.Equal(step.TraceId, root.TraceId) {
		t.Errorf("spans %v below %v", step.Span, root.Span)
	}
	if step.Status.GetCode() != collected.Status_STATUS_CODE_ERROR || step.Status.GetMessage() != "the API server is down" ||
		root.Status.GetCode() != collected.Status_STATUS_CODE_UNSET {
		t.Errorf("the step ended with %v, the whole with %v", step.Status, root.Status)
	}
	if root.Sender["service.name"] != "peercache-operator" || root.Sender["service.version"] != "1.2.3" || root.Sender["service.instance.id"] == "" {
		t.Errorf("they are from %v", root.Sender)
	}
}

// TestNothingRunsWithoutAnEndpoint starts no exporter in one bubble and one in another: a bubble fails when a goroutine in it does
// not end. That an exporter has a goroutine makes the absence of one meaningful.
func TestNothingRunsWithoutAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traces, err := Start("", "1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, span := traces.Tracer().Start(t.Context(), "reconcile")
		done := false
		if err := Step(ctx, "apply", func(context.Context) error { done = true; return nil }); err != nil || !done {
			t.Errorf("a step without an endpoint: %v, done %t", err, done)
		}
		if span.IsRecording() {
			t.Error("spans are made without an endpoint")
		}
		span.End()
	})
	synctest.Test(t, func(t *testing.T) {
		traces, err := Start("http://127.0.0.1:0", "1") // nobody is asked there: no span ends
		if err != nil {
			t.Fatal(err)
		}
		if _, span := traces.Tracer().Start(t.Context(), "reconcile"); !span.IsRecording() {
			t.Error("no spans are made with an endpoint")
		}
		synctest.Wait() // until the exporter waits for spans
		var stacks bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(stacks.String(), "NewBatchSpanProcessor") {
			t.Errorf("no exporter runs with an endpoint:\n%s", stacks.String())
		}
		traces.Stop()
	})
}

// TestAnswersOfTheCollectorAreBounded lets a collector answer without end.
func TestAnswersOfTheCollectorAreBounded(t *testing.T) {
	const offered = 256 << 20 // more than sockets hold
	taken := make(chan int, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		wrote, part := 0, bytes.Repeat([]byte("x"), 1<<20)
		for wrote < offered {
			n, err := writer.Write(part)
			wrote += n
			if err != nil {
				break
			}
		}
		taken <- wrote
	}))
	defer collector.Close()
	traces, err := Start(collector.URL, "1")
	if err != nil {
		t.Fatal(err)
	}
	_, span := traces.Tracer().Start(t.Context(), "reconcile")
	span.End()
	traces.Stop()
	if wrote := <-taken; wrote >= offered {
		t.Errorf("all of an answer of %d bytes was read", wrote)
	}
	if said := logged(); !strings.Contains(said, "spans are lost") || !strings.Contains(said, "the answer has more than 65535 bytes") {
		t.Errorf("the log says\n%s", said)
	}
}

// operatorLog is the log of the package. A process can set its logger only once.
var operatorLog struct {
	sync.Mutex
	strings.Builder
}

func logged() string {
	operatorLog.Lock()
	defer operatorLog.Unlock()
	return operatorLog.String()
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(funcr.New(func(_, line string) {
		operatorLog.Lock()
		defer operatorLog.Unlock()
		operatorLog.WriteString(line + "\n")
	}, funcr.Options{}))
	os.Exit(m.Run())
}

// TestUnreachableCollector checks that an unreachable collector costs its spans and a line in the log, and delays
// nothing.
func TestUnreachableCollector(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	traces, err := Start(closed.URL, "1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := traces.Tracer().Start(t.Context(), "reconcile")
	if err := Step(ctx, "apply", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	span.End()
	traces.Stop()
	if _, said, _ := strings.Cut(logged(), "spans are lost"); !strings.Contains(said, closed.URL+"/v1/traces") {
		t.Errorf("the log says\n%s", logged())
	}
}

func TestCheck(t *testing.T) {
	for endpoint, says := range map[string]string{
		"": "", "http://collector:4318": "", "https://collector.monitoring.svc/tenant-1/": "", "http://[fd00::1]:4318": "",
		"collector:4318":                   "write scheme, host and port",
		"grpc://collector:4317":            "as in http://collector:4318",
		"http://:4318":                     "write scheme, host and port",
		"http://collector:port":            "write it as http://collector:4318",
		"http://user:secret@collector":     "more than scheme, host, port and path",
		"http://collector:4318?tenant=1":   "more than scheme, host, port and path",
		"http://collector:4318/v1/traces/": "write http://collector:4318",
	} {
		err := Check(endpoint)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want it to say %q", endpoint, err, says)
		}
	}
}

func TestRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/broken" {
			writer.WriteHeader(http.StatusInternalServerError)
		}
		if request.URL.Path == "/missing" {
			writer.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
	client := &http.Client{Transport: Requests(http.DefaultTransport)}
	ask := func(ctx context.Context, address string) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodPatch, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}
	ask(t.Context(), server.URL+"/cache")
	if spans := exporter.GetSpans(); len(spans) != 0 {
		t.Errorf("a request of nobody's work has span %v", spans)
	}
	ctx, span := tracer.Start(t.Context(), "reconcile")
	for _, path := range []string{"/fine", "/missing", "/broken"} {
		ask(ctx, server.URL+path)
	}
	ask(ctx, "http://127.0.0.1:0/nobody")
	spans := exporter.GetSpans()
	if len(spans) != 4 {
		t.Fatalf("%d spans of 4 requests", len(spans))
	}
	for i, want := range []struct {
		path   string
		answer int64
		status codes.Code
	}{{"/fine", 200, codes.Unset}, {"/missing", 404, codes.Unset}, {"/broken", 500, codes.Error}, {"/nobody", 0, codes.Error}} {
		got := attribute.NewSet(spans[i].Attributes...)
		path, _ := got.Value("url.path")
		answer, _ := got.Value("http.response.status_code")
		if spans[i].Name != http.MethodPatch || path.AsString() != want.path || answer.AsInt64() != want.answer ||
			spans[i].Status.Code != want.status || spans[i].Parent.SpanID() != span.SpanContext().SpanID() {
			t.Errorf("request %d is %+v, want %+v", i, spans[i], want)
		}
	}
}
