// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// maxReview is what the API server takes from its own clients for one object.
	maxReview = 3 << 20
	// maxValues of a review's JSON. A pod of 20 containers with 100 variables each has 14,000, most of them in its managed
	// fields.
	maxValues = 16_000
	// Most reviews are smaller: one of an SGLang pod with a router has 10 KiB and 500 values.
	smallReview = 64 << 10
	smallValues = 2_000
	// Reviews that are decoded at once; others wait unread. Three bytes may become a container of 408, which is copied:
	// a large review takes 36 MiB at most, a small one 4.
	largeAtOnce = 1
	smallAtOnce = 6
	// readTimeout bounds how long a review that comes slowly keeps others waiting.
	readTimeout = time.Second
)

// guard bounds what reviews cost, whoever sends them: anything that reaches the webhook's port can, where askers are not chosen.
// Small ones do not wait for large ones.
type guard struct {
	askers       Askers
	next         http.Handler
	small, large slots
}

func guarded(askers Askers, next http.Handler) http.Handler {
	return &guard{askers: askers, next: next, small: make(slots, smallAtOnce), large: make(slots, largeAtOnce)}
}

// ServeHTTP implements http.Handler. The API server admits the pods of reviews that are refused here, as they are.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.askers.refuses(r); err != nil {
		refuse(w, r, "refused", http.StatusForbidden, err.Error())
		return
	}
	held := g.large
	if 0 <= r.ContentLength && r.ContentLength <= smallReview {
		held = g.small
	}
	if !held.enter(r.Context()) {
		refuse(w, r, "unreadable", http.StatusServiceUnavailable, busy)
		return
	}
	defer func() { held.leave() }()
	// Not every kind of connection has deadlines; those of the webhook's server have.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuse(w, r, "unreadable", http.StatusRequestEntityTooLarge, fmt.Sprintf("the review has more than %d bytes", maxReview))
		return
	}
	if err != nil {
		refuse(w, r, "unreadable", http.StatusBadRequest, fmt.Sprintf("reading the review: %v", err))
		return
	}
	n := values(body)
	if n > maxValues {
		refuse(w, r, "unreadable", http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the review has %d values, of %d at most: make the pod's lists shorter", n, maxValues))
		return
	}
	if n > smallValues && held == g.small {
		held.leave()
		held = g.large
		if !held.enter(r.Context()) {
			held = nil
			refuse(w, r, "unreadable", http.StatusServiceUnavailable, busy)
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.next.ServeHTTP(w, r)
}

const busy = "too many reviews wait: create the pod again later"

// slots are held by reviews.
type slots chan struct{}

func (s slots) enter(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s slots) leave() {
	if s != nil {
		<-s
	}
}

func refuse(w http.ResponseWriter, r *http.Request, outcome string, status int, reason string) {
	injections.WithLabelValues(outcome, "none").Inc()
	ctrl.LoggerFrom(r.Context()).Info("refused a review", "from", r.RemoteAddr, "status", status, "reason", reason)
	http.Error(w, "peercache: the pod was not connected: "+reason, status)
}

// values is at least the number of values in a JSON document: each comes behind a comma, or opens a list or an object.
func values(document []byte) int {
	count := 1
	inString := false
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case inString && c == '\\':
			i++ // whatever is escaped
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '[' || c == '{'):
			count++
		}
	}
	return count
}
