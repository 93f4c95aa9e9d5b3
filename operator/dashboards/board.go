// SPDX-License-Identifier: Apache-2.0

// Package dashboards has the Grafana dashboards of PeerCache: one set for all clusters, with the variables datasource, namespace
// and cluster.
//
//	for name, text := range dashboards.Files() { ... } // peercache-cluster.json and its JSON model
//
// The package is pure. `make generate` writes the files to config/grafana.
package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// gridWidth is the width of a Grafana dashboard. Panels stand in rows of two.
	gridWidth   = 24
	panelWidth  = gridWidth / 2
	panelHeight = 8

	timeSeries = "timeseries"
	// heatmap has a row for each series.
	heatmap = "heatmap"
	// stateTimeline is the panel type for values of 1 (up) and 0 (down).
	stateTimeline = "state-timeline"
)

// The units of Grafana that panels use.
const (
	number        = "short"
	perSecond     = "cps"
	size          = "bytes"
	sizePerSecond = "Bps"
	share         = "percentunit" // 1 is 100 %
	seconds       = "s"
)

// Matchers select the chosen cluster in a query. In the queries of this package, %s stands for them.
const Matchers = `namespace="$namespace",peercache_io_cluster="$cluster"`

// board is one dashboard. Its file is peercache-NAME.json, and its uid peercache-NAME, so links to it do not change.
type board struct {
	name, title string
	panels      []panel
}

type panel struct {
	title, kind, unit string
	// about says what the panel shows, and what to do about it.
	about string
	// alerts are the alerts that watch what the panel shows. The description names them.
	alerts  []string
	marks   []mark
	queries []query
}

// mark is a threshold: values from here on have the color. The first one has the color of all lower values.
type mark struct {
	from  float64
	color string
}

// above marks values from a limit on as bad.
func above(limit float64) []mark { return []mark{{color: "green"}, {limit, "red"}} }

// below marks values under a limit as bad.
func below(limit float64) []mark { return []mark{{color: "red"}, {limit, "green"}} }

type query struct{ expr, legend string }

var boards = []board{cluster, members, rails, disks, engines}

// Files returns the JSON model of each dashboard by its file name.
func Files() map[string]string {
	files := map[string]string{}
	for _, b := range boards {
		files["peercache-"+b.name+".json"] = b.render()
	}
	return files
}

type object = map[string]any

// render writes the JSON model of Grafana.
func (b board) render() string {
	panels := make([]object, 0, len(b.panels))
	for i, p := range b.panels {
		panel := p.render()
		panel["id"] = i + 1
		panel["gridPos"] = object{"h": panelHeight, "w": panelWidth, "x": i % 2 * panelWidth, "y": i / 2 * panelHeight}
		panels = append(panels, panel)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // queries stay readable
	encoder.SetIndent("", " ")
	err := encoder.Encode(object{
		"uid":           "peercache-" + b.name,
		"title":         "PeerCache: " + b.title,
		"tags":          []string{"peercache"},
		"schemaVersion": 39,
		"refresh":       "30s",
		"time":          object{"from": "now-1h", "to": "now"},
		"templating":    object{"list": variables()},
		"links": []object{{
			"type": "dashboards", "tags": []string{"peercache"}, "title": "PeerCache", "asDropdown": true, "includeVars": true, "keepTime": true,
		}},
		"panels": panels,
	})
	if err != nil {
		panic(err) // encoding maps of strings and numbers cannot fail
	}
	return text.String()
}

func dataSource() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// variables are the choices above the panels: where metrics are, and which cluster is shown.
func variables() []object {
	labels := func(name, label, query string) object {
		return object{
			"name": name, "label": label, "type": "query", "datasource": dataSource(), "definition": query,
			"query": object{"query": query, "refId": name}, "refresh": 2, "sort": 1, // 2: when the time range changes, too
		}
	}
	return []object{
		{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
		labels("namespace", "Namespace", "label_values(peercache_ready, namespace)"),
		labels("cluster", "Cluster", `label_values(peercache_ready{namespace="$namespace"}, peercache_io_cluster)`),
	}
}

func (p panel) render() object {
	targets := make([]object, 0, len(p.queries))
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": dataSource(), "expr": strings.ReplaceAll(q.expr, "%s", Matchers), "legendFormat": q.legend,
		})
	}
	about := p.about
	if len(p.alerts) > 0 {
		about += fmt.Sprintf("\n\nAlerts: %s.", strings.Join(p.alerts, ", "))
	}
	return object{
		"title": p.title, "description": about, "type": p.kind, "datasource": dataSource(), "targets": targets,
		"fieldConfig": object{"defaults": p.fieldDefaults(), "overrides": []object{}},
	}
}

// fieldDefaults are the unit, the thresholds and the names of a panel's values.
func (p panel) fieldDefaults() object {
	defaults := object{"unit": p.unit}
	if p.kind == stateTimeline {
		state := func(text, color string) object { return object{"text": text, "color": color} }
		defaults["mappings"] = []object{
			{"type": "value", "options": object{"0": state("down", "red"), "1": state("up", "green")}},
		}
	}
	if len(p.marks) == 0 {
		return defaults
	}
	steps := make([]object, 0, len(p.marks))
	for i, m := range p.marks {
		step := object{"value": m.from, "color": m.color}
		if i == 0 {
			step["value"] = nil // from minus infinity on
		}
		steps = append(steps, step)
	}
	defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
	if p.kind == timeSeries {
		defaults["custom"] = object{"thresholdsStyle": object{"mode": "dashed"}}
	}
	return defaults
}
