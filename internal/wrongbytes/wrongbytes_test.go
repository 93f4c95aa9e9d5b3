// SPDX-License-Identifier: Apache-2.0

package wrongbytes

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// reportOf runs a check with a fail that does not return, as that of Ginkgo.
func reportOf(check func(fail func(string))) (report string) {
	type ended string
	defer func() {
		if end, ok := recover().(ended); ok {
			report = string(end)
		}
	}()
	check(func(report string) { panic(ended(report)) })
	return ""
}

func TestRight(t *testing.T) {
	for name, test := range map[string]struct {
		got, want []string
		right     int
		report    string
	}{
		"all":           {[]string{"a", "b"}, []string{"a", "b"}, 2, ""},
		"a miss":        {[]string{"a"}, []string{"a", "b"}, 1, ""},
		"nothing":       {nil, []string{"a"}, 0, ""},
		"a hole":        {[]string{"", "b"}, []string{"a", "b"}, 1, ""},
		"another's":     {[]string{"a", "a"}, []string{"a", "b"}, 0, "page 1 of 2 that reader got: the digest of its bytes is a, expected b"},
		"never written": {[]string{"a", "b"}, []string{"a"}, 0, "page 1 of 1 that reader got: the digest of its bytes is b, expected none, for it was never written"},
	} {
		t.Run(name, func(t *testing.T) {
			right := 0
			report := reportOf(func(fail func(string)) { right = Right(fail, "reader", test.got, test.want) })
			if right != test.right || !strings.Contains(report, test.report) || (test.report == "") != (report == "") {
				t.Errorf("%d right, %q", right, report)
			}
			if report != "" && !strings.HasPrefix(report, Marker) {
				t.Errorf("%q does not begin with the marker", report)
			}
		})
	}
}

func TestNone(t *testing.T) {
	if report := reportOf(func(fail func(string)) { None(fail, "reader", 0, nil) }); report != "" {
		t.Error(report)
	}
	report := reportOf(func(fail func(string)) { None(fail, "reader", 7, []Page{{3, "a", "b"}}) })
	if !strings.HasPrefix(report, Marker+": 7 pages that reader got") || !strings.Contains(report, "{Page:3 Got:a Want:b}") {
		t.Error(report)
	}
}

// TestFailEndsEventually checks that wrong bytes fail even where the next read is right.
func TestFailEndsEventually(t *testing.T) {
	tries := 0
	g := gomega.NewGomega(func(message string, _ ...int) { t.Error(message) })
	report := reportOf(func(fail func(string)) {
		g.Eventually(func(inner gomega.Gomega) {
			tries++
			got := []string{"b"}
			if tries > 1 {
				got = []string{"a"}
			}
			inner.Expect(Right(fail, "reader", got, []string{"a"})).To(gomega.Equal(1))
		}).WithTimeout(2 * time.Minute).Should(gomega.Succeed())
	})
	if tries != 1 || report == "" {
		t.Errorf("%d tries, %q", tries, report)
	}
}
