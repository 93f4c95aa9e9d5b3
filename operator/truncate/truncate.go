// SPDX-License-Identifier: Apache-2.0

// Package truncate bounds texts in events and conditions.
package truncate

import "strings"

// Text cuts a text to at most limit bytes, between characters, and marks the cut with three dots.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
