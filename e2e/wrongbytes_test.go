// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/peercache/peercache/internal/wrongbytes"
)

// rightPages counts the pages that an engine got, and ends the spec where one has other bytes than were written.
func rightPages(e engine, got result, wrote []string) int {
	GinkgoHelper()
	return wrongbytes.Right(endSpec, e.name, got.SHA256s, wrote)
}

// expectAllPages waits until the reader gets all pages that were written. The last arguments say what is wrong otherwise.
func expectAllPages(ctx context.Context, body request, wrote []string, within time.Duration, otherwise ...any) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		got, err := reader.do(ctx, "read", body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(rightPages(reader, got, wrote)).To(Equal(body.Pages), "pages that hit")
	}).WithContext(ctx).WithTimeout(within).Should(Succeed(), otherwise...)
}

// endSpec is not an assertion: an Eventually around it does not try again.
func endSpec(report string) {
	GinkgoHelper()
	Fail(report)
}
