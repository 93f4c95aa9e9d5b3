// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what the tests look at in a workflow, and in an action of this repository.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]job    `json:"jobs"`
	Runs        job               `json:"runs"`
}

type job struct {
	Permissions map[string]string `json:"permissions"`
	Uses        string            `json:"uses"`
	Steps       []struct {
		Uses string         `json:"uses"`
		Run  string         `json:"run"`
		With map[string]any `json:"with"`
	} `json:"steps"`
	Strategy struct {
		Matrix struct {
			Include    []struct{ Lanes string } `json:"include"`
			Kubernetes []string                 `json:"kubernetes"`
		} `json:"matrix"`
	} `json:"strategy"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	actions, err := filepath.Glob(root + "/.github/actions/*/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]workflow{}
	for _, file := range append(files, actions...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var parsed workflow
		if err := yaml.Unmarshal(text, &parsed); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[strings.TrimPrefix(file, root+"/.github/")] = parsed
	}
	if len(files) < 2 || len(actions) < 1 {
		t.Fatalf("%d workflows and %d actions were found", len(files), len(actions))
	}
	return found
}

// TestWorkflowLanes: the workflow runs every lane that .ci/run runs, once.
func TestWorkflowLanes(t *testing.T) {
	var want []string
	for file, pattern := range map[string]string{"Makefile": `(?m)^TEST_LANES := ((?:.*\\\n)*.*)$`, ".ci/run": `LANES_\w+='([^']*)'`} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
		if found == nil {
			t.Fatalf("%s names no lanes", file)
		}
		for _, lanes := range found {
			want = append(want, strings.Fields(string(lanes[1]))...)
		}
	}
	for i, lane := range want { // of which only full runs have some
		want[i] = strings.TrimSuffix(strings.TrimPrefix(lane, "if_full,"), ")")
	}
	// Where .ci/run's lanes go, beginnings of calls, and ends of lines.
	want = slices.DeleteFunc(want, func(lane string) bool { return strings.HasPrefix(lane, "$(") || lane == `\` })
	var got []string
	for _, row := range workflows(t)["workflows/ci.yml"].Jobs["lanes"].Strategy.Matrix.Include {
		got = append(got, strings.Fields(row.Lanes)...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("ci.yml runs\n%q, make test and .ci/run run\n%q", got, want)
	}
}

// TestWorkflowActions: actions of others are named by a commit, as a tag may be moved.
func TestWorkflowActions(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	seen := map[string]string{}
	for file, parsed := range workflows(t) {
		var used []string
		for _, job := range parsed.Jobs {
			used = append(used, job.Uses)
			for _, step := range job.Steps {
				used = append(used, step.Uses)
			}
		}
		for _, step := range parsed.Runs.Steps {
			used = append(used, step.Uses)
		}
		for _, action := range used {
			if action == "" || strings.HasPrefix(action, "./") {
				continue
			}
			if !pinned.MatchString(action) {
				t.Errorf("%s uses %s, which is no commit", file, action)
			}
			name, commit, _ := strings.Cut(action, "@")
			if before := seen[name]; before != "" && before != commit {
				t.Errorf("%s uses %s at %s, another at %s", file, name, commit, before)
			}
			seen[name] = commit
		}
	}
	if len(seen) < 4 {
		t.Errorf("only %d actions were found", len(seen))
	}
}

// TestWorkflowPermissions: each job has the rights that it needs, and no more.
func TestWorkflowPermissions(t *testing.T) {
	read := map[string]string{"contents": "read"}
	want := map[string]map[string]string{
		"workflows/ci.yml lanes":          read,
		"workflows/ci.yml hosts":          read,
		"workflows/ci.yml arm64":          read,
		"workflows/ci.yml arm64-emulated": read,
		"workflows/ci.yml kubernetes":     read,
		"workflows/ci.yml oldest":         read,
		"workflows/release.yml version":   read,
		"workflows/release.yml tests":     read,
		"workflows/release.yml packages":  read,
		"workflows/release.yml images":    read,
		"workflows/release.yml publish":   {"contents": "read", "packages": "write", "id-token": "write"},
		"workflows/release.yml release":   {"contents": "write"},
		"workflows/release.yml pypi":      {"contents": "read", "id-token": "write"},
		"workflows/release.yml site":      {"contents": "write"},
	}
	for file, parsed := range workflows(t) {
		if strings.HasPrefix(file, "actions/") {
			continue
		}
		if parsed.Permissions == nil || len(parsed.Permissions) != 0 {
			t.Errorf("%s gives every job %v, want nothing", file, parsed.Permissions)
		}
		for name, job := range parsed.Jobs {
			if !maps.Equal(job.Permissions, want[file+" "+name]) {
				t.Errorf("%s: job %s has the rights %v, want %v", file, name, job.Permissions, want[file+" "+name])
			}
			for _, step := range job.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false && name != "site" {
					t.Errorf("%s: job %s keeps the token where every step can read it", file, name)
				}
			}
		}
	}
}

// TestWorkflowBuildsWithoutRights: a job that may push, sign or release builds nothing, as what it builds runs code of others.
func TestWorkflowBuildsWithoutRights(t *testing.T) {
	const targets = `\bmake (?:-s )?([a-z-]+)`
	harmless := []string{"push", "sign", "release-notes", "wheels-upload"}
	checked := 0
	for name, job := range workflows(t)["workflows/release.yml"].Jobs {
		if maps.Equal(job.Permissions, map[string]string{"contents": "read"}) || name == "site" { // which publishes what has no signature
			continue
		}
		for _, step := range job.Steps {
			if strings.HasPrefix(step.Uses, "./") {
				t.Errorf("job %s runs %v with the rights %v", name, step.With["run"], job.Permissions)
			}
			for _, target := range regexp.MustCompile(targets).FindAllStringSubmatch(step.Run, -1) {
				checked++
				if !slices.Contains(harmless, target[1]) {
					t.Errorf("job %s makes %s with the rights %v", name, target[1], job.Permissions)
				}
			}
			if strings.Contains(step.Run, "build.sh") {
				t.Errorf("job %s builds with the rights %v:\n%s", name, job.Permissions, step.Run)
			}
		}
	}
	if checked < 4 {
		t.Errorf("only %d targets were found", checked)
	}
}

// TestWorkflowArchitectures: what is published of images, each job has also built for arm64 before.
func TestWorkflowArchitectures(t *testing.T) {
	jobs := workflows(t)["workflows/release.yml"].Jobs
	for name, published := range map[string][]string{"images": {"make sbom provenance push-kit"}, "packages": {"make wheels"}} {
		var runs strings.Builder
		for _, step := range jobs[name].Steps {
			fmt.Fprintln(&runs, step.Run, step.With["run"])
		}
		built := strings.Index(runs.String(), "ARCH=arm64 make deps images")
		for _, target := range published {
			if at := strings.Index(runs.String(), target); built < 0 || at < built {
				t.Errorf("job %s: %q comes before the images of arm64:\n%s", name, target, &runs)
			}
		}
	}
}

// TestWorkflowTargets: the targets of make and scripts that workflows run exist.
func TestWorkflowTargets(t *testing.T) {
	var all bytes.Buffer
	for _, pattern := range []string{"Makefile", "*/*.mk", "hack/*/*.mk"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	checked := 0
	for file, parsed := range workflows(t) {
		for _, job := range parsed.Jobs {
			for _, step := range job.Steps {
				for _, command := range regexp.MustCompile(`\bmake ((?:-s )?[a-z][^\n>&|]*)`).FindAllStringSubmatch(step.Run+"\n"+fmt.Sprint(step.With["run"]), -1) {
					for target := range strings.FieldsSeq(command[1]) {
						if strings.HasPrefix(target, "-") || strings.Contains(target, "=") {
							continue
						}
						checked++
						if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(all.Bytes()) {
							t.Errorf("%s: there is no target %s", file, target)
						}
					}
				}
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d targets were found", checked)
	}
}
