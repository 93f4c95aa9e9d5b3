// SPDX-License-Identifier: Apache-2.0

package truncate

import "testing"

func TestText(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"aüb", 2, "a..."}, {"aüb", 3, "aü..."},
	} {
		if got := Text(test.text, test.limit); got != test.want {
			t.Errorf("%q cut to %d bytes is %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}
