// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"testing"
)

func TestEntropyBits(t *testing.T) {
	for secret, want := range map[string]float64{
		"":                                   0,
		"0123456789abcdef0123456789abcdef":   128,
		"0123456789ABCDEF":                   64,
		"AAECAwQFBgcICQoLDA0ODw==":           144,
		"\x00\x01\x02\x03\x80\xff....abcdef": 128,
		"1234567890":                         33.2,
		"correct horse":                      85.4,
	} {
		if got := entropyBits(secret); math.Abs(got-want) > 0.1 {
			t.Errorf("%q has %v bits, want %v", secret, got, want)
		}
	}
}
