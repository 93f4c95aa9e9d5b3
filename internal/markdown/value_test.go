// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestValueExample recomputes the example of when a hit pays, and the saving that docs/value.md reads from its table.
func TestValueExample(t *testing.T) {
	content, err := os.ReadFile(root + "/docs/value.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(content)), " ")
	numbers := func(pattern string) (found []float64) {
		t.Helper()
		match := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if match == nil {
			t.Fatalf("docs/value.md has nothing like %s", pattern)
		}
		for _, group := range match[1:] {
			number, err := strconv.ParseFloat(strings.ReplaceAll(group, ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, number)
		}
		return found
	}
	e := numbers(`Example: ([\d.]+) KiB a token, a prefill rate of ([\d,]+) tokens/s\. Computing a token takes (\d+) µs\. At (\d+) GB/s ` +
		`its bytes take (\d+) µs: the hit is ([\d.]+) times as fast\. At (\d+) GB/s they take (\d+) µs`)
	micros := func(gigabytes float64) float64 { return e[0] * 1024 / (gigabytes * 1e9) * 1e6 }
	for name, pair := range map[string][2]float64{
		"computing":   {e[2], 1e6 / e[1]},
		"a fast link": {e[4], math.Round(micros(e[3]))},
		"the gain":    {e[5], math.Round(e[2]/micros(e[3])*10) / 10},
		"a slow link": {e[7], math.Round(micros(e[6]))},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: docs/value.md says %v, it is %v", name, pair[0], pair[1])
		}
	}
	if e[2] >= e[7] {
		t.Error("the slow link of the example is not slower than computing")
	}
	saved := numbers(`10 M shared tokens saved (\d+) % of worker-hours`)[0]
	page, err := Read(root + "/docs/value.md")
	if err != nil {
		t.Fatal(err)
	}
	hours := map[string]float64{}
	for _, table := range page.Tables {
		if !strings.Contains(table.Head[0], "simulated") {
			continue
		}
		for _, row := range table.Rows {
			if hours[row[0]], err = strconv.ParseFloat(row[len(row)-1], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	none, shared := hours["none, least-loaded routing"], hours["10 M"]
	if got := math.Round((1 - shared/none) * 100); got != saved {
		t.Errorf("docs/value.md says that 10 M tokens save %v %%, its table %v %%", saved, got)
	}
}
