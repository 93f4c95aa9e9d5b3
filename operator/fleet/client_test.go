// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func node(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func answering(id string, members ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/status" {
			http.NotFound(w, r)
			return
		}
		var list []string
		for _, member := range members {
			name, state, _ := strings.Cut(member, "=")
			list = append(list, fmt.Sprintf(`{"id":%q,"incarnation":7,"state":%q,"age_ms":3}`, name, state))
		}
		_, _ = fmt.Fprintf(w, `{"node":{"id":%q,"version":"0.1.0","group":"default","state":"active"},`+
			`"members":[%s],"ring_epoch":4,"pool":{"pages":12}}`, id, strings.Join(list, ","))
	}
}

func TestAsk(t *testing.T) {
	a := node(t, answering("a", "a=active", "b=active"))
	b := node(t, answering("b", "a=active", "b=active", "c=joining"))
	answers, err := NewClient().Ask(t.Context(), []string{a, b})
	if err != nil {
		t.Fatalf("Ask: %v", err)
	}
	if len(answers) != 2 || answers[0].Node.ID != "a" || answers[1].Node.ID != "b" {
		t.Fatalf("answers are %+v", answers)
	}
	if answers[0].Node.Version != "0.1.0" || answers[1].Members[2].State != "joining" {
		t.Errorf("fields are lost: %+v", answers)
	}
}

func TestAskSurvivesBadNodes(t *testing.T) {
	good := node(t, answering("good", "good=active"))
	tests := []struct {
		name, address, says string
	}{
		{"nobody listens", "127.0.0.1:1", "connection refused"},
		{"no JSON", node(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }),
			"reading the status of node"},
		{"error", node(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
			"HTTP 500"},
		{"redirect", node(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+good+"/v1/status", http.StatusFound)
		}), "HTTP 302"},
		{"endless", node(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"members":[`))
			for range maxBody / 1000 {
				_, _ = w.Write([]byte(strings.Repeat(`{"id":"x"},`, 100)))
			}
		}), "reading the status of node"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answers, err := NewClient().Ask(t.Context(), []string{test.address, good})
			if len(answers) != 1 || answers[0].Node.ID != "good" {
				t.Errorf("the good node's answer is lost: %+v", answers)
			}
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.address) {
				t.Errorf("error is %v, want one about %s saying %q", err, test.address, test.says)
			}
		})
	}
}

// hanging counts the requests that no node answers.
type hanging struct {
	mu        sync.Mutex
	now, most int
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	h.count(1)
	defer h.count(-1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (h *hanging) count(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += more
	h.most = max(h.most, h.now)
}

func TestAskIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes hanging
		client := NewClient()
		client.http.Transport = &nodes
		start := time.Now()
		answers, err := client.Ask(t.Context(), make([]string, maxConcurrent+3))
		if len(answers) != 0 || err == nil {
			t.Fatalf("nodes that hang gave %+v, %v", answers, err)
		}
		if took := time.Since(start); took != 2*timeout {
			t.Errorf("took %s for two rounds of %s", took, timeout)
		}
		if nodes.most != maxConcurrent {
			t.Errorf("%d requests at once, want %d", nodes.most, maxConcurrent)
		}
	})
}

func TestActiveMembers(t *testing.T) {
	view := func(members ...string) NodeStatus {
		var status NodeStatus
		for _, member := range members {
			id, state, _ := strings.Cut(member, "=")
			status.Members = append(status.Members, Member{ID: id, State: state})
		}
		return status
	}
	tests := []struct {
		name    string
		answers []NodeStatus
		want    int32
	}{
		{"no answer", nil, 0},
		{"one view", []NodeStatus{view("a=active", "b=draining", "c=joining")}, 1},
		{"the same view twice", []NodeStatus{view("a=active", "b=active"), view("b=active", "a=active")}, 2},
		{"views that differ", []NodeStatus{view("a=active", "b=joining"), view("b=active", "c=active")}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := ActiveMembers(test.answers); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
