// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestValues(t *testing.T) {
	for document, want := range map[string]int{
		``: 1, `null`: 1, `[]`: 2, `{"a":1,"b":[2,3]}`: 5,
		`"{,[\",\\"`: 1, `["\\",{}]`: 4,
	} {
		if got := values([]byte(document)); got != want {
			t.Errorf("%s has %d values, want %d", document, got, want)
		}
	}
}

// hostileReview is one whose pod has this list of containers.
func hostileReview(containers string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",`+
		`"namespace":"serving","operation":"CREATE","object":{"metadata":{"labels":{"peercache.io/inject":"kv"}},`+
		`"spec":{"containers":[%s]}}}}`, containers)
}

func TestHostileReviewsCostLittleMemory(t *testing.T) {
	const (
		atOnce = 1000
		most   = 64 << 20
	)
	list := func(value string, count int) string { return strings.TrimSuffix(strings.Repeat(value+",", count), ",") }
	bodies := map[string]struct {
		review  []byte
		refused bool
	}{
		"350,000 containers": {hostileReview(list("{}", 1<<20/3)), true},
		"no container":       {hostileReview(list("null", 1<<20/5)), true},
		"too large":          {hostileReview(`{"name":"` + strings.Repeat("x", maxReview) + `"}`), true},
		"a large name":       {hostileReview(`{"name":"` + strings.Repeat("x", 1<<20) + `"}`), false},
		"as many as allowed": {hostileReview(list("{}", maxValues/2-20)), false},
		"as a small one may": {hostileReview(list("{}", smallValues/2-20)), false},
	}
	ctrl.SetLogger(logr.Discard())
	cluster := copyingReader{clusterWith("serving")}
	server := httptest.NewServer(guarded(Askers{}, &admission.Webhook{Handler: &handler{
		options: testOptions, cached: cluster, live: cluster,
	}}))
	defer server.Close()
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			grown := peak(t, func() {
				var answered atomic.Bool
				var senders sync.WaitGroup
				for range atOnce {
					senders.Go(func() {
						// Whoever sends too much may see the end of the connection before the answer.
						if status, err := post(t, server, body.review); err == nil && status == http.StatusOK {
							answered.Store(true)
						}
					})
				}
				senders.Wait()
				if answered.Load() == body.refused {
					t.Errorf("answered: %v", answered.Load())
				}
			})
			t.Logf("%d reviews of %d bytes at once: %d MiB at most", atOnce, len(body.review), grown>>20)
			if grown > most {
				t.Errorf("%d MiB at most, want %d", grown>>20, most>>20)
			}
		})
	}
}

// post sends a review as it is: a client of package http would copy it, in the process whose heap is measured.
func post(t *testing.T, server *httptest.Server, body []byte) (status int, err error) {
	t.Helper()
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = connection.Close() }()
	if _, err := fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)); err != nil {
		return 0, err
	}
	if _, err := connection.Write(body); err != nil {
		return 0, err
	}
	var head [len("HTTP/1.1 200")]byte
	if _, err := io.ReadFull(connection, head[:]); err != nil {
		return 0, err
	}
	return strconv.Atoi(string(head[len("HTTP/1.1 "):]))
}

// peak is by how much the heap grew meanwhile, with a tenth of garbage: more is collected where GOMEMLIMIT is near.
func peak(t *testing.T, work func()) uint64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	before := stats.HeapInuse
	done := make(chan struct{})
	var most uint64
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.ReadMemStats(&stats)
				most = max(most, stats.HeapInuse)
				runtime.Gosched()
			}
		}
	})
	work()
	close(done)
	sampler.Wait()
	return most - min(most, before)
}
