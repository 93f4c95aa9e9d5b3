// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is how often a phase prints its state.
const progressInterval = 3 * time.Second

// progress prints the state of the run, with the seconds since its start.
type progress struct {
	mu    sync.Mutex
	to    io.Writer
	start time.Time
}

func newProgress(out io.Writer) *progress { return &progress{to: out, start: time.Now()} }

func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.to, "%7.1f s  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// during prints the state of a phase regularly until the returned function is called.
func (p *progress) during(state func() string) (stop func()) {
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				p.say("  %s", state())
			}
		}
	})
	return func() {
		close(ended)
		wait.Wait()
	}
}
