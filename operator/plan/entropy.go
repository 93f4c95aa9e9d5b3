// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"strings"
)

// minSecretBits is how hard to guess a token of peercached must be; see entropyBits.
const minSecretBits = 128

// entropyBits is what peercached counts (dataplane/src/base/entropy.h): the bits of a secret that was drawn at random from the
// smallest of some alphabets that has all its bytes.
func entropyBits(secret string) float64 {
	const digits, hex, letters = "0123456789", "abcdefABCDEF", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	size := 256.0
	for _, alphabet := range []struct {
		size float64
		has  func(byte) bool
	}{
		{95, func(c byte) bool { return ' ' <= c && c <= '~' }},
		{64, func(c byte) bool { return strings.IndexByte(digits+letters+"+/-_=", c) >= 0 }},
		{16, func(c byte) bool { return strings.IndexByte(digits+hex, c) >= 0 }},
		{10, func(c byte) bool { return strings.IndexByte(digits, c) >= 0 }},
	} {
		for i := range len(secret) {
			if !alphabet.has(secret[i]) {
				return float64(len(secret)) * math.Log2(size)
			}
		}
		size = alphabet.size
	}
	return float64(len(secret)) * math.Log2(size)
}
