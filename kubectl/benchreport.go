// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"io"
	"slices"
)

// benchReport is the report of bench.
type benchReport struct {
	identity
	Nodes     []string      `json:"members"`
	PageBytes int64         `json:"pageBytes"`
	Pages     int64         `json:"pages"`
	Batch     int           `json:"batch"`
	Threads   int           `json:"threads"`
	Pairs     []benchResult `json:"pairs"`
}

// benchResult is the measurement of one pair of nodes.
type benchResult struct {
	Holder         string  `json:"holder"`
	Reader         string  `json:"reader"`
	BytesPerSecond float64 `json:"bytesPerSecond"`
	Pages          uint64  `json:"pages"`
	Hits           uint64  `json:"hits"`
	// The latencies are those of one call with a batch of pages.
	CallP50Microseconds float64 `json:"callP50Microseconds"`
	CallP99Microseconds float64 `json:"callP99Microseconds"`
	Error               string  `json:"error,omitempty"`
}

// problem returns what is wrong with the pair, or "".
func (b benchResult) problem() string {
	switch {
	case b.Error != "":
		return b.Error
	case b.Hits < b.Pages:
		return fmt.Sprintf("%d of %d pages were missed, so the rate counts for little: see kubectl peercache doctor",
			b.Pages-b.Hits, b.Pages)
	default:
		return ""
	}
}

func (r *benchReport) hasProblems() bool {
	return slices.ContainsFunc(r.Pairs, func(b benchResult) bool { return b.problem() != "" })
}

func (r *benchReport) text(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%s: GB/s, %d pages of %s for each pair, %d in a call, %s\n\n", r.identity, r.Pages,
		size(float64(r.PageBytes)), r.Batch, plural(r.Threads, "thread"))
	head := append([]string{"READS \\ HOLDS"}, r.Nodes...)
	t := newTable(head...)
	for column := range r.Nodes {
		t.numbers(column + 1)
	}
	for _, reader := range r.Nodes {
		row := []string{reader}
		for _, holder := range r.Nodes {
			row = append(row, r.cell(reader, holder))
		}
		t.add(row...)
	}
	t.write(w)
	for _, pair := range r.Pairs {
		if problem := pair.problem(); problem != "" {
			_, _ = fmt.Fprintf(w, "\n%s reads from %s: %s\n", pair.Reader, pair.Holder, problem)
		}
	}
}

func (r *benchReport) cell(reader, holder string) string {
	for _, pair := range r.Pairs {
		switch {
		case pair.Reader != reader || pair.Holder != holder:
		case pair.Error != "":
			return "error"
		case pair.Hits < pair.Pages:
			return fmt.Sprintf("%.2f !", pair.BytesPerSecond/1e9)
		default:
			return fmt.Sprintf("%.2f", pair.BytesPerSecond/1e9)
		}
	}
	return "-"
}
