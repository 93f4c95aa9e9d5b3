// SPDX-License-Identifier: Apache-2.0

// Package wrongbytes reports pages that were read with other bytes than were written, for tests in Go.
package wrongbytes

import "fmt"

// Marker is the text for which hack/dev/lanes searches: a run that prints it has failed.
const Marker = "PEERCACHE-WRONG-BYTES"

// Right returns the number of correct pages. got and want are the digests of pages by number. A missed page has no digest, or an
// empty one. Right calls fail for the first wrong page. fail must not return: the Fail of Ginkgo ends the spec, also within an
// Eventually, which would otherwise retry until the bytes are right.
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

// Page is a wrong page that another program has found: the answer of the test engine to a load.
type Page struct {
	Page int    `json:"page"`
	Got  string `json:"got"`
	Want string `json:"want"`
}

// None calls fail when there are wrong pages. first holds one or more of them.
func None(fail func(report string), reader string, count int, first []Page) {
	if count > 0 || len(first) > 0 {
		fail(fmt.Sprintf("%s: %d pages that %s got; digests of their bytes: %+v", Marker, max(count, len(first)), reader, first))
	}
}
