// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// size writes bytes with at most three digits: 512, 1.5Ki, 64Gi.
func size[N uint64 | float64](bytes N) string {
	return scaled(float64(bytes), 1024, []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
}

// sizeOf is size of a quantity of bytes.
func sizeOf(bytes resource.Quantity) string { return size(bytes.AsApproximateFloat64()) }

// count writes a number with at most three digits: 7, 1.5k, 64M.
func count(n float64) string { return scaled(n, 1000, []string{"", "k", "M", "G", "T"}) }

func scaled(n, step float64, units []string) string {
	unit := 0
	// A number from 999.5 on would have four digits.
	for ; n >= min(step, 999.5) && unit < len(units)-1; unit++ {
		n /= step
	}
	if n >= 9.95 || unit == 0 && n == float64(int64(n)) {
		return strconv.FormatFloat(n, 'f', 0, 64) + units[unit]
	}
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + units[unit]
}

// percent writes a share. It writes 100 % only for all, and 0 % only for none.
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

// plural writes "1 node" and "3 nodes".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
