// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/peercache/peercache/internal/wrongbytes"
)

// rightPages counts the pages that an engine got, and ends the spec where one has other bytes than were written.
func rightPages(e engine, got result, wrote []string) int {
	GinkgoHelper()
	return wrongbytes.Right(endSpec, e.name, got.SHA256s, wrote)
}

// endSpec is not an assertion: an Eventually around it does not try again.
func endSpec(report string) {
	GinkgoHelper()
	Fail(report)
}
