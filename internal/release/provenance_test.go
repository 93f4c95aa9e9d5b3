// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// statement is the part of in-toto's Statement v1 and SLSA's provenance v1 that the scripts write.
type statement struct {
	Type    string `json:"_type"`
	Subject []struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
	PredicateType string `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			ResolvedDependencies []struct {
				URI    string            `json:"uri"`
				Digest map[string]string `json:"digest"`
			} `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
			Metadata struct {
				FinishedOn time.Time `json:"finishedOn"`
			} `json:"metadata"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

// releaseTree is a repository with the scripts and small substitutes for the sources, and a cache with an image of
// them.
type releaseTree struct{ root, cache, archive string }

func newReleaseTree(t *testing.T) releaseTree {
	t.Helper()
	tree := releaseTree{root: t.TempDir(), cache: t.TempDir()}
	for _, file := range []string{
		"Dockerfile", ".dockerignore", "VERSION", "go.mod", "go.sum",
		"hack/lib.sh", "hack/release/images/targets.sh", "hack/release/images/stages.awk", "hack/release/provenance.sh",
	} {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		tree.write(t, file, content)
	}
	tree.write(t, "api/api.go", []byte("package api\n"))
	tree.write(t, "operator/main.go", []byte("package main\n"))
	tree.run(t, "git init -q . && git add -A && git -c user.name=a -c user.email=a@example.com commit -qm one")
	tree.archive = strings.TrimSpace(tree.run(t, `. hack/lib.sh && . hack/release/images/targets.sh && image_archive operator`))
	return tree
}

// build puts an image into the cache as hack/release/images/build-images.sh does, and returns the archive and its
// configuration.
func (r releaseTree) build(t *testing.T) (archive, config []byte) {
	t.Helper()
	config = []byte(`{"architecture": "amd64", "os": "linux"}`)
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range []struct{ name, content string }{
		{"config.json", string(config)}, {"manifest.json", `[{"Config": "config.json", "RepoTags": ["operator:1"], "Layers": []}]`},
	} {
		if err := writer.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(file.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(r.archive), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.archive, buffer.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run(t, `. hack/lib.sh && . hack/release/images/targets.sh && inputs_hash operator > "$(image_archive operator).inputs"`)
	return buffer.Bytes(), config
}

func (r releaseTree) write(t *testing.T, file string, content []byte) {
	t.Helper()
	to := filepath.Join(r.root, file)
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o700); err != nil {
		t.Fatal(err)
	}
}

func (r releaseTree) run(t *testing.T, script string) string {
	t.Helper()
	said, err := r.runErr(t, script)
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, said)
	}
	return said
}

func (r releaseTree) runErr(t *testing.T, script string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	// git must not use the settings of the developer, or the repository of a hook that runs this test.
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
	command.Dir, command.Env = r.root, slices.Concat(environment, []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "PEERCACHE_CACHE=" + r.cache})
	said, err := command.CombinedOutput()
	return string(said), err
}

func TestProvenance(t *testing.T) {
	tree := newReleaseTree(t)
	archive, config := tree.build(t)
	tree.run(t, "hack/release/provenance.sh operator")
	text, err := os.ReadFile(filepath.Join(tree.root, "dist/release/operator.provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var made statement
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&made); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if made.Type != "https://in-toto.io/Statement/v1" || made.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("types %q and %q", made.Type, made.PredicateType)
	}
	if len(made.Subject) != 2 || made.Subject[0].Name != filepath.Base(tree.archive) ||
		made.Subject[0].Digest["sha256"] != digest(archive) || !strings.Contains(made.Subject[1].Name, "/operator:") ||
		made.Subject[1].Digest["sha256"] != digest(config) {
		t.Errorf("subjects %+v, want the archive %s and the image %s", made.Subject, digest(archive), digest(config))
	}
	commit := strings.TrimSpace(tree.run(t, "git rev-parse HEAD"))
	definition, details := made.Predicate.BuildDefinition, made.Predicate.RunDetails
	if from := definition.ResolvedDependencies; len(from) != 1 || from[0].Digest["gitCommit"] != commit || !strings.HasPrefix(from[0].URI, "git+https://") {
		t.Errorf("made from %+v, want commit %s", from, commit)
	}
	version := strings.TrimSpace(tree.run(t, "cat VERSION"))
	if definition.ExternalParameters["target"] != "operator" || definition.ExternalParameters["version"] != version {
		t.Errorf("parameters %v", definition.ExternalParameters)
	}
	for name, uri := range map[string]string{"buildType": definition.BuildType, "builder.id": details.Builder.ID} {
		if parsed, err := url.Parse(uri); err != nil || !parsed.IsAbs() {
			t.Errorf("%s %q is no URI", name, uri)
		}
	}
	if age := time.Since(details.Metadata.FinishedOn); age < -time.Minute || age > time.Hour {
		t.Errorf("finished on %s", details.Metadata.FinishedOn)
	}
}

// TestProvenanceOfTwoArchitectures: one statement is of both.
func TestProvenanceOfTwoArchitectures(t *testing.T) {
	tree := newReleaseTree(t)
	tree.build(t)
	tree.run(t, `plain=`+tree.archive+`; other=${plain%.tar}-arm64.tar; cp "$plain" "$other"; cp "$plain.inputs" "$other.inputs"; hack/release/provenance.sh operator`)
	text, err := os.ReadFile(filepath.Join(tree.root, "dist/release/operator.provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var made statement
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if len(made.Subject) != 4 || made.Subject[0].Name != filepath.Base(tree.archive) || !strings.HasSuffix(made.Subject[2].Name, "-arm64.tar") {
		t.Errorf("subjects %+v", made.Subject)
	}
}

func TestProvenanceIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ change, says string }{
		"of what no commit says":       {"echo >> operator/main.go", "the work tree is not what any commit says"},
		"of an image of other sources": {"echo >> operator/main.go && git -c user.name=a -c user.email=a@example.com commit -qam two", "has not been built of this tree"},
		"without an image":             {`rm "$ARCHIVE"`, "has not been built of this tree"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newReleaseTree(t)
			tree.build(t)
			tree.run(t, "ARCHIVE="+tree.archive+"; "+test.change)
			if said, err := tree.runErr(t, "hack/release/provenance.sh operator"); err == nil || !strings.Contains(said, test.says) {
				t.Errorf("error %v, says %q, want %q", err, said, test.says)
			}
		})
	}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
