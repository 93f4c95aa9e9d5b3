// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// target makes a target of this tree, as the workflow of a release does.
func target(t *testing.T, environment []string, args ...string) (output, errors string, err error) {
	t.Helper()
	// go test keeps a result until a file changes that the test itself has read.
	for _, file := range []string{"Makefile", "hack/release/release.mk", "hack/lib.sh", "hack/release/check.sh", "hack/release/notes.sh", "hack/release/sign.sh", "VERSION", "CHANGELOG.md"} {
		if _, err := os.ReadFile(filepath.Join(root, file)); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr strings.Builder
	command := exec.CommandContext(t.Context(), "make", append([]string{"-s", "-C", root}, args...)...)
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { // of the make that runs the tests
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	command.Env = append(command.Env, environment...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

// TestReleaseCheck: the tag of this tree's version passes, and no other.
func TestReleaseCheck(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	tag := "v" + strings.TrimSpace(string(text))
	if _, said, err := target(t, nil, "release-check", "TAG="+tag); err != nil || !strings.Contains(said, tag+": CHANGELOG.md has ") {
		t.Errorf("%s: %v: %s", tag, err, said)
	}
	for _, wrong := range []string{"v9.9.9", strings.TrimPrefix(tag, "v"), tag + "-rc.1", ""} {
		_, said, err := target(t, nil, "release-check", "TAG="+wrong)
		if err == nil || !strings.Contains(said, "'"+wrong+"'") || !strings.Contains(said, " "+tag+"\n") {
			t.Errorf("tag %q: %v: want a failure that names it and %s, got %s", wrong, err, tag, said)
		}
	}
}

// TestReleaseNotes: the notes are the section of this version in CHANGELOG.md, and nothing of others.
func TestReleaseNotes(t *testing.T) {
	notes, said, err := target(t, nil, "release-notes")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(changelog), "\n## ["+strings.TrimSpace(string(version))+"]")
	if !found {
		t.Fatal("CHANGELOG.md has no section of this version")
	}
	_, section, _ = strings.Cut(section, "\n") // the rest of the heading
	for _, end := range []string{"\n## ", "\n["} {
		section, _, _ = strings.Cut(section, end)
	}
	if strings.TrimSpace(notes) == "" || strings.TrimSpace(notes) != strings.TrimSpace(section) {
		t.Errorf("the notes are\n%s\nand CHANGELOG.md has\n%s", notes, section)
	}
}

// recordingCosign notes its arguments, a line for each call, and copies the predicate that it is given.
const recordingCosign = `#!/usr/bin/env bash
set -euo pipefail
printf '%s\n' "$*" >>"$RECORD/calls"
while [ $# -gt 0 ]; do
  [ "$1" != --predicate ] || cat "$2" >>"$RECORD/predicates"
  shift
done
`

// TestSign: every line of pushed.tsv is signed by its digest, and images are attested by what make sbom and make provenance
// have written. Real keys and a real registry are GitHub's.
func TestSign(t *testing.T) {
	out, programs := t.TempDir(), t.TempDir()
	references := map[string]string{}
	var pushed strings.Builder
	for i, name := range []string{"operator", "dataplane", "client", "chart", "bundle"} {
		references[name] = "registry.example.com/team/peercache/" + name + "@sha256:" + strings.Repeat(string(rune('a'+i)), 64)
		pushed.WriteString(name + "\t" + references[name] + "\n")
	}
	files := map[string]string{
		filepath.Join(out, "pushed.tsv"):                pushed.String(),
		filepath.Join(programs, "cosign"):               recordingCosign,
		filepath.Join(out, "dataplane.spdx.json"):       `{"spdxVersion": "SPDX-2.3"}`,
		filepath.Join(out, "dataplane-arm64.spdx.json"): `{"spdxVersion": "SPDX-2.3"}`,
		filepath.Join(out, "dataplane.provenance.json"): `{"subject": [{"name": "of the tree"}], "predicate": {"runDetails": {"builder": 1}}}`,
	}
	for file, content := range files {
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	environment := []string{"RELEASE_OUT=" + out, "RECORD=" + programs, "PATH=" + programs + ":" + os.Getenv("PATH"), "COSIGN_KEY=my.key"}
	if _, said, err := target(t, environment, "sign"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.ReadFile(filepath.Join(programs, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	signed, attested := []string{}, []string{}
	for call := range strings.Lines(strings.TrimSpace(string(text)) + "\n") {
		words := strings.Fields(call)
		reference := words[len(words)-1]
		if !slices.Contains(words, "--yes") || !strings.Contains(call, "--key my.key --tlog-upload=false") {
			t.Errorf("cosign would ask, or sign by other means than the key: %s", call)
		}
		switch words[0] {
		case "sign":
			signed = append(signed, reference)
		case "attest":
			attested = append(attested, words[slices.Index(words, "--type")+1]+" "+reference)
		default:
			t.Errorf("unexpected call: %s", call)
		}
	}
	want := []string{references["operator"], references["dataplane"], references["client"], references["chart"], references["bundle"]}
	if !slices.Equal(signed, want) {
		t.Errorf("signed is %q, want %q", signed, want)
	}
	if want := []string{"spdxjson " + references["dataplane"], "spdxjson " + references["dataplane"], "slsaprovenance1 " + references["dataplane"]}; !slices.Equal(attested, want) {
		t.Errorf("attested is %q, want %q", attested, want)
	}
	// cosign makes the statement anew: it is given the predicate alone.
	predicates, err := os.ReadFile(filepath.Join(programs, "predicates"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(predicates)))
	var sbom struct {
		SPDXVersion string `json:"spdxVersion"`
	}
	var provenance map[string]any
	for range 2 { // of two architectures
		if err := decoder.Decode(&sbom); err != nil || sbom.SPDXVersion != "SPDX-2.3" {
			t.Errorf("a predicate is no SBOM: %v: %s", err, predicates)
		}
	}
	if err := decoder.Decode(&provenance); err != nil || provenance["runDetails"] == nil || provenance["subject"] != nil {
		t.Errorf("the last predicate is not that of the provenance: %v: %s", err, predicates)
	}

	nothing := []string{"RELEASE_OUT=" + t.TempDir(), "RECORD=" + programs, "PATH=" + programs + ":" + os.Getenv("PATH")}
	if _, said, err := target(t, nothing, "sign"); err == nil || !strings.Contains(said, "nothing has been pushed") {
		t.Errorf("without pushed.tsv: %v: %s", err, said)
	}
}
