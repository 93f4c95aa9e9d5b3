// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write config/grafana")

const folder = "../../config/grafana"

// TestFilesAreWritten: config/grafana has these dashboards and no others.
func TestFilesAreWritten(t *testing.T) {
	files := Files()
	if *update {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != want {
			t.Errorf("%s/%s is not what the boards say (error %v): run make generate", folder, name, err)
		}
	}
	written, err := filepath.Glob(folder + "/*.json")
	if err != nil || len(written) != len(files) {
		t.Errorf("%s has %v (error %v), and there are %d dashboards", folder, written, err, len(files))
	}
	kustomization, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if !strings.Contains(string(kustomization), "- "+name+"\n") {
			t.Errorf("kustomization.yaml lacks %s", name)
		}
	}
}

// TestBoards: Grafana can show each, every panel says what it shows, and every query uses the variables.
func TestBoards(t *testing.T) {
	total := 0
	for name, text := range Files() {
		total += len(text)
		var page struct {
			UID, Title string
			Templating struct {
				List []struct{ Name, Definition string }
			}
			Panels []struct {
				Title, Description, Type string
				GridPos                  struct{ X, Y, W, H int }
				Datasource               struct{ UID string }
				Targets                  []struct {
					Expr, LegendFormat string
					Datasource         struct{ UID string }
				}
				FieldConfig struct {
					Defaults struct {
						Unit       string
						Thresholds struct{ Steps []struct{ Value *float64 } }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if page.UID+".json" != name || len(page.UID) > 40 || !strings.HasPrefix(page.Title, "PeerCache: ") || len(page.Panels) < 6 {
			t.Errorf("%s is %q with uid %s and %d panels", name, page.Title, page.UID, len(page.Panels))
		}
		var names []string
		for _, variable := range page.Templating.List {
			names = append(names, variable.Name)
		}
		if !slices.Equal(names, []string{"datasource", "namespace", "cluster"}) {
			t.Errorf("%s has variables %v", name, names)
		}
		places, titles, marked := map[string]bool{}, map[string]bool{}, 0
		for _, p := range page.Panels {
			where := name + ": " + p.Title
			place := fmt.Sprint(p.GridPos)
			if places[place] || titles[p.Title] || p.GridPos.X+p.GridPos.W > gridWidth || len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s is at %s with %d queries and unit %q", where, place, len(p.Targets), p.FieldConfig.Defaults.Unit)
			}
			places[place], titles[p.Title] = true, true
			if about, _, _ := strings.Cut(p.Description, "\n"); len(about) < 20 || !strings.HasSuffix(about, ".") {
				t.Errorf("%s has description %q", where, p.Description)
			}
			steps := p.FieldConfig.Defaults.Thresholds.Steps
			if len(steps) > 0 {
				marked++
				if steps[0].Value != nil || len(steps) < 2 || steps[1].Value == nil {
					t.Errorf("%s: Grafana takes the first threshold as that of all lower values: %v", where, steps)
				}
			}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" || p.Datasource.UID != "${datasource}" || q.LegendFormat == "" {
					t.Errorf("%s: %s reads %q with legend %q", where, q.Expr, q.Datasource.UID, q.LegendFormat)
				}
			}
		}
		if marked == 0 {
			t.Errorf("no panel of %s has a threshold", name)
		}
	}
	if total > 200_000 {
		t.Errorf("dashboards take %d bytes: a ConfigMap that kubectl apply keeps in an annotation has room for 256 KiB", total)
	}
}

// TestQueriesHaveNoPlaceholders: what this package replaces is replaced, and only Grafana's variables are left.
func TestQueriesHaveNoPlaceholders(t *testing.T) {
	for name, text := range Files() {
		if strings.Contains(text, "%s") || strings.Contains(text, "%!") {
			t.Errorf("%s has a placeholder", name)
		}
		used := map[string]bool{}
		for _, match := range regexp.MustCompile(`\$\{?([a-z_]+)`).FindAllStringSubmatch(text, -1) {
			used[match[1]] = true
		}
		if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, []string{"cluster", "datasource", "namespace"}) {
			t.Errorf("%s uses the variables %v", name, got)
		}
	}
}
