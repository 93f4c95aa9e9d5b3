// SPDX-License-Identifier: Apache-2.0

// Package hitshare says which part of its pages a load has found over time, for tests in Go.
package hitshare

import "slices"

// Round is one pass of a load over its pages.
type Round struct {
	At    float64 // seconds since the load began
	Share float64 // of the pages, found
}

// Lowest is the lowest share of the pages that a load found in any window of so many seconds: the minimum of the sliding mean. A
// round counts for as long as it took, because rounds that find nothing are short and would count too often. The last round only
// says when the one before it ended. A load that is shorter than the window is one window. Lowest of fewer than two rounds is 0.
func Lowest(rounds []Round, window float64) float64 {
	if len(rounds) < 2 {
		return 0
	}
	begin, end := rounds[0].At, rounds[len(rounds)-1].At
	window = min(window, end-begin)
	if window <= 0 {
		return 0
	}
	// The mean changes evenly between two positions at which an edge of the window meets a round.
	var means []float64
	for _, round := range rounds {
		for _, from := range []float64{round.At, round.At - window} {
			means = append(means, found(rounds, min(max(from, begin), end-window), window)/window)
		}
	}
	return slices.Min(means)
}

// found is the share of the pages, times the seconds for which it was found.
func found(rounds []Round, from, window float64) (sum float64) {
	for i, round := range rounds[:len(rounds)-1] {
		if inside := min(rounds[i+1].At, from+window) - max(round.At, from); inside > 0 {
			sum += round.Share * inside
		}
	}
	return sum
}
