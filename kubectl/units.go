// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"strconv"
	"strings"
)

// size writes bytes with three digits at most: 512, 1.5Ki, 64Gi.
func size[N uint64 | float64](bytes N) string {
	return scaled(float64(bytes), 1024, []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
}

// count writes a number with three digits at most: 7, 1.5k, 64M.
func count(n float64) string { return scaled(n, 1000, []string{"", "k", "M", "G", "T"}) }

func scaled(n, step float64, units []string) string {
	unit := 0
	// From 999.5 on it would be written with four digits.
	for ; n >= min(step, 999.5) && unit < len(units)-1; unit++ {
		n /= step
	}
	if n >= 9.95 || unit == 0 && n == float64(int64(n)) {
		return strconv.FormatFloat(n, 'f', 0, 64) + units[unit]
	}
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + units[unit]
}

// percent writes a share. Only all is 100 %, and only nothing is 0 %.
func percent(part, whole float64) string {
	switch share := 100 * part / whole; {
	case share > 99.9 && share < 100:
		return "99.9%"
	case share > 0 && share < 0.1:
		return "0.1%"
	case share == float64(int64(share)):
		return fmt.Sprintf("%.0f%%", share)
	default:
		return fmt.Sprintf("%.1f%%", share)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// several writes "1 node" and "3 nodes".
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
