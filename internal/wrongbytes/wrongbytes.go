// SPDX-License-Identifier: Apache-2.0

// Package wrongbytes says that a page read from the cache has other bytes than were set, for tests in Go.
package wrongbytes

import "fmt"

// Marker is what hack/lanes looks for: a run that prints it has failed.
const Marker = "PEERCACHE-WRONG-BYTES"

// Right is the number of pages that came, of which none is wrong: got and want are the digests of pages by number.
// A page that did not come is no digest, or an empty one. Of the first wrong page fail is told, and must not return:
// Ginkgo's Fail ends the spec, also from within an Eventually, which would go on until the bytes are right.
func Right(fail func(report string), reader string, got, want []string) (right int) {
	for page, digest := range got {
		if digest == "" {
			continue
		}
		expected := "none, for it was never written"
		if page < len(want) {
			expected = want[page]
		}
		if digest != expected {
			fail(fmt.Sprintf("%s: page %d of %d that %s got: the digest of its bytes is %s, expected %s",
				Marker, page, len(want), reader, digest, expected))
			continue
		}
		right++
	}
	return right
}

// Page is a wrong page that another program has found: what the test engine answers to a load.
type Page struct {
	Page int    `json:"page"`
	Got  string `json:"got"`
	Want string `json:"want"`
}

// None fails when there are some; first is one or more of them.
func None(fail func(report string), reader string, count int, first []Page) {
	if count > 0 || len(first) > 0 {
		fail(fmt.Sprintf("%s: %d pages that %s got; digests of their bytes: %+v", Marker, max(count, len(first)), reader, first))
	}
}
