// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/markdown"
)

const sizingPage = "../../docs/sizing.md"

// TestSizingOfModels recomputes every row of the table of models from the fields of config.json that the row has.
func TestSizingOfModels(t *testing.T) {
	rows := sizingTable(t, "KiB a token")
	if len(rows) < 8 {
		t.Fatalf("only %d models were found", len(rows))
	}
	for _, row := range rows {
		number := func(column string) float64 { return sizingNumber(t, row[column]) }
		bytes := number("layers") * number("KV heads") * number("head dim") * 2 // BF16
		if row["attention"] != "MLA" {
			bytes *= 2 // keys and values
		}
		for column, want := range map[string]string{
			"KiB a token":               shortest(bytes/1024, 1),
			"MiB a page of 64":          shortest(bytes*64/(1<<20), 1),
			"million tokens in 1 TiB":   shortest((1<<40)/bytes/1e6, 1),
			"least GB/s at 10k token/s": shortest(bytes*1e4/1e9, 2),
		} {
			if row[column] != want {
				t.Errorf("%s: %s is %s, and should be %s", row["model"], column, row[column], want)
			}
		}
	}
}

// TestSizingOfAMember asks the operator what the member of the worked example requests.
func TestSizingOfAMember(t *testing.T) {
	page, err := markdown.Read(sizingPage)
	if err != nil {
		t.Fatal(err)
	}
	var cluster v1alpha1.PeerCacheCluster
	for _, block := range page.Blocks {
		if block.Language == "yaml" {
			if err := yaml.UnmarshalStrict([]byte(block.Text), &cluster); err != nil {
				t.Fatal(err)
			}
		}
	}
	spec := testCluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Memory.Pool, s.Resources, s.Disk = cluster.Spec.Memory.Pool, cluster.Spec.Resources, cluster.Spec.Disk
	}).Spec
	group := Groups(spec)[0]
	const gib = 1 << 30
	pool, rest, drives := group.Memory(spec).Pool, group.overhead(spec), group.diskMemory(spec)
	overhead := spec.Resources.MemoryOverhead
	requests := buildResources(spec, group).Requests
	for _, row := range sizingTable(t, "GiB of a node") {
		var want float64
		switch row["for"] {
		case "pool":
			want = float64(pool.Value()) / gib
		case "index, records and page tables of the pool":
			want = float64(rest.Value()-overhead.Value()) / gib
		case "`memoryOverhead`":
			want = float64(overhead.Value()) / gib
		case "index and records of the drives":
			want = float64(drives.Value()) / gib
		case "the member requests":
			want = float64(requests.Memory().Value()) / gib
		default:
			continue
		}
		if got := row["GiB of a node"]; got != commas(math.Round(want)) {
			t.Errorf("%s takes %s GiB by the page, and %.1f by the operator", row["for"], got, want)
		}
	}
}

// TestSizingAddsUp checks the sums of the worked example, and what it says of host pools and tokens.
func TestSizingAddsUp(t *testing.T) {
	sum := 0.0
	for _, row := range sizingTable(t, "GiB of a node") {
		value := sizingNumber(t, row["GiB of a node"])
		switch row["for"] {
		case "the member requests":
			continue
		case "all of it":
			if math.Abs(value-sum) > 2 { // rows are rounded
				t.Errorf("the rows add up to %.0f GiB, the page says %.0f", sum, value)
			}
		default:
			sum += value
		}
	}
	if sum == 0 {
		t.Fatal("the example has no rows")
	}
	bytes := map[string]float64{}
	for _, row := range sizingTable(t, "KiB a token") {
		bytes[row["model"]] = sizingNumber(t, row["layers"]) * sizingNumber(t, row["KV heads"]) * sizingNumber(t, row["head dim"]) * 4
		if row["attention"] == "MLA" {
			bytes[row["model"]] /= 2
		}
	}
	const llama, deepSeek = "Llama-3.3-70B", "DeepSeek-V3, R1"
	rows := sizingTable(t, llama)
	for _, row := range rows {
		var want [2]float64 // millions of tokens
		switch row["tokens, millions"] {
		case "on the GPUs":
			want = [2]float64{(0.85*640e9 - 141e9) / bytes[llama], (0.85*1280e9 - 671e9) / 16 / bytes[deepSeek]}
		case "in L2":
			want = [2]float64{8 * 50e9 / bytes[llama], 50e9 / bytes[deepSeek]}
		case "in the pool":
			want = [2]float64{(1 << 40) / bytes[llama], (1 << 40) / bytes[deepSeek]}
		case "on the drives":
			want = [2]float64{6 * (1 << 40) / bytes[llama], 6 * (1 << 40) / bytes[deepSeek]}
		default:
			t.Errorf("%q is not computed", row["tokens, millions"])
		}
		for i, model := range []string{llama, deepSeek} {
			if row[model] != shortest(want[i]/1e6, 1) {
				t.Errorf("%s %s: %s million tokens by the page, %.2f computed", model, row["tokens, millions"], row[model], want[i]/1e6)
			}
		}
	}
	if len(rows) != 4 {
		t.Errorf("%d rows of tokens were found", len(rows))
	}
}

// sizingTable returns the rows of the table of the page that has this column.
func sizingTable(t *testing.T, column string) (rows []map[string]string) {
	t.Helper()
	page, err := markdown.Read(sizingPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range page.Tables {
		found := false
		for _, head := range table.Head {
			found = found || head == column
		}
		if !found {
			continue
		}
		for _, cells := range table.Rows {
			row := map[string]string{}
			for i, head := range table.Head {
				row[head] = cells[i]
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("no table has a column %q", column)
	}
	return rows
}

func sizingNumber(t *testing.T, text string) float64 {
	t.Helper()
	number, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// shortest is a number with so many decimals, and without those that are zero.
func shortest(number float64, decimals int) string {
	text := strconv.FormatFloat(number, 'f', decimals, 64)
	return strings.TrimSuffix(regexp.MustCompile(`(\.\d*?)0+$`).ReplaceAllString(text, "$1"), ".")
}

func commas(number float64) string {
	if number < 1000 {
		return fmt.Sprintf("%.0f", number)
	}
	return fmt.Sprintf("%d,%03d", int(number)/1000, int(number)%1000)
}
