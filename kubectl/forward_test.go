// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// forwardingServer is the part of an API server that forwards ports, by SPDY: all connections go to target. lose ends the
// forwards that are open.
func forwardingServer(t *testing.T, target string) (pods *apiServerPods, lose func()) {
	t.Helper()
	var mu sync.Mutex
	var open []httpstream.Connection
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/inference/pods/kv-default-b/portforward" {
			http.NotFound(w, r)
			return
		}
		if !strings.EqualFold(r.Header.Get("Upgrade"), "SPDY/3.1") {
			http.Error(w, "no WebSocket passes here", http.StatusForbidden)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Error(err)
			return
		}
		streams := make(chan httpstream.Stream, 16)
		mu.Lock() // the client goes on once it is told of the upgrade: lose then finds the connection
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		open = append(open, conn)
		mu.Unlock()
		failures := map[string]httpstream.Stream{} // by request
		for {
			select {
			case <-conn.CloseChan():
				return
			case s := <-streams:
				request := s.Headers().Get(corev1.PortForwardRequestIDHeader)
				if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
					failures[request] = s
					continue
				}
				if port := s.Headers().Get(corev1.PortHeader); port != "31997" {
					t.Errorf("port %s is not the one of monitoring", port)
				}
				go pass(t, s, failures[request], target)
			}
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &apiServerPods{config, clientset}, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			_ = conn.Close()
		}
	}
}

// pass connects a stream with target until both have said all.
func pass(t *testing.T, data, failure httpstream.Stream, target string) {
	conn, err := net.Dial("tcp", target)
	if err != nil {
		t.Error(err)
		return
	}
	go func() { _, _ = io.Copy(conn, data) }()
	_, _ = io.Copy(data, conn)
	_, _ = data.Close(), failure.Close()
	_ = conn.Close()
}

func TestForward(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	}))
	t.Cleanup(node.Close)
	pods, lose := forwardingServer(t, node.Listener.Addr().String())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: "kv-default-b"}}

	start := func(local uint16) (ended chan error, at uint16, end context.CancelFunc) {
		t.Helper()
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		ready := make(chan uint16, 1)
		ended = make(chan error, 1)
		go func() { ended <- pods.forward(ctx, pod, 31997, local, func(local uint16) { ready <- local }) }()
		select {
		case at = <-ready:
		case err := <-ended:
			t.Fatal(err)
		}
		return ended, at, end
	}
	ended, local, end := start(0)
	for range 3 {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/status", local))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if want := fmt.Sprintf("/v1/status of 127.0.0.1:%d", local); err != nil || string(text) != want {
			t.Fatalf("%q, %v; want %q", text, err, want)
		}
	}
	err := pods.forward(t.Context(), pod, 31997, local, func(uint16) { t.Error("two listen at one port") })
	if !errors.Is(err, errNoPort) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("%v; want one that says that the port is taken", err)
	}
	end()
	if err := <-ended; err != nil {
		t.Errorf("the user ends it: %v", err)
	}

	ended, again, end := start(local)
	defer end()
	if again != local {
		t.Errorf("port %d; want %d, as before", again, local)
	}
	lose()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "kv-default-b") {
		t.Errorf("%v; want one that names the lost pod", err)
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: "gone"}}
	if err := pods.forward(t.Context(), other, 31997, 0, func(uint16) { t.Error("a pod that does not exist") }); err == nil {
		t.Error("a pod that does not exist is forwarded to")
	}
}
