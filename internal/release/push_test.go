// SPDX-License-Identifier: Apache-2.0

//go:build push

package release

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/internal/ports"
)

// pushTree is this repository with a cache of its own: archives of small images under the names of the real ones, and the
// programs of the real cache.
type pushTree struct{ cache, out, registry string }

func newPushTree(t *testing.T) pushTree {
	t.Helper()
	tree := pushTree{cache: t.TempDir(), out: t.TempDir(), registry: startRegistry(t)}
	real, found := os.LookupEnv("PEERCACHE_CACHE")
	if !found {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		real = filepath.Join(home, ".cache/peercache")
	}
	for _, tool := range []string{"crane", "helm"} {
		if err := os.Symlink(filepath.Join(real, tool), filepath.Join(tree.cache, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for _, image := range []string{"operator", "dataplane", "client"} {
		tree.build(t, image, "amd64", "")
	}
	return tree
}

// build writes an archive of an image with one file, as hack/release/images/build-images.sh names it.
func (p pushTree) build(t *testing.T, image, architecture, suffix string) {
	t.Helper()
	layer := pack(t, map[string]string{"usr/bin/" + image: image + " for " + architecture})
	sum := sha256.Sum256(layer)
	config := fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {"Entrypoint": ["/usr/bin/%s"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`,
		architecture, image, sum)
	archive := pack(t, map[string]string{
		"config.json": config, "layer.tar": string(layer),
		"manifest.json": fmt.Sprintf(`[{"Config": "config.json", "RepoTags": ["ghcr.io/peercache/peercache/%s:1"], "Layers": ["layer.tar"]}]`, image),
	})
	name := strings.TrimSuffix(strings.TrimSpace(p.shell(t, `. hack/lib.sh && . hack/release/images/targets.sh && image_archive `+image)), ".tar") + suffix + ".tar"
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	p.shell(t, `. hack/lib.sh && . hack/release/images/targets.sh && inputs_hash `+image+` > `+name+`.inputs`)
}

func (p pushTree) shell(t *testing.T, script string) string {
	t.Helper()
	said, err := p.try(t, script)
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, said)
	}
	return said
}

func (p pushTree) try(t *testing.T, script string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir = root
	command.Env = append(os.Environ(), "PEERCACHE_CACHE="+p.cache, "RELEASE_OUT="+p.out, "REGISTRY_INSECURE=true",
		"HELM_CACHE_HOME="+p.cache, "HELM_CONFIG_HOME="+p.cache, "DOCKER_CONFIG="+p.cache)
	said, err := command.CombinedOutput()
	return string(said), err
}

// pushed returns what dist/release/pushed.tsv says, by name: REPOSITORY@DIGEST below the registry's host.
func (p pushTree) pushed(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.out, "pushed.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, reference, _ := strings.Cut(strings.TrimSpace(line), "\t")
		reference, ours := strings.CutPrefix(reference, p.registry+"/")
		if !ours {
			t.Errorf("%s is not in the registry: %s", name, line)
		}
		found[name] = reference
	}
	return found
}

// manifest is an image's manifest, or an index, as far as the tests look at it.
type manifest struct {
	Config    struct{ Digest string }
	Layers    []struct{ Digest string }
	Manifests []struct {
		Digest   string
		Platform struct{ Architecture, OS string }
	}
}

// pull fetches a manifest by its digest, and checks that it has that digest.
func (p pushTree) pull(t *testing.T, reference string) (parsed manifest) {
	t.Helper()
	repository, digest, found := strings.Cut(reference, "@")
	if !found {
		t.Fatalf("%s has no digest", reference)
	}
	content := p.get(t, repository+"/manifests/"+digest)
	if sum := sha256.Sum256(content); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		t.Errorf("%s has the digest %x", reference, sum)
	}
	if err := json.Unmarshal(content, &parsed); err != nil {
		t.Fatalf("%s: %v", reference, err)
	}
	return parsed
}

func (p pushTree) get(t *testing.T, path string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.registry+"/v2/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "+
		"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // read to its end
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", path, answer.Status, err, content)
	}
	return content
}

func TestPush(t *testing.T) {
	tree := newPushTree(t)
	to := tree.registry + "/team/peercache"
	said := tree.shell(t, "hack/release/push.sh "+to+" 1.2.3-rc.1")
	pushed := tree.pushed(t)
	for _, name := range []string{"operator", "dataplane", "client", "chart", "bundle"} {
		made := tree.pull(t, pushed[name])
		if len(made.Layers) != 1 || !strings.Contains(said, pushed[name]) {
			t.Errorf("%s has %d layers, want 1, and its digest printed:\n%s", name, len(made.Layers), said)
		}
		tag := strings.Replace(strings.Split(pushed[name], "@")[0], "team/", "", 1)
		tree.get(t, "team/"+tag+"/manifests/1.2.3-rc.1")
	}

	// Whoever installs it has neither the source tree nor values.
	folder := t.TempDir()
	rendered := tree.shell(t, "cd "+folder+" && helm template peercache oci://"+to+"/charts/peercache --version 1.2.3-rc.1 --plain-http --kube-version 1.36.3 --set csi.enabled=true 2>/dev/null")
	for name, times := range map[string]int{"operator": 2, "dataplane": 1, "client": 1} {
		if count := strings.Count(rendered, tree.registry+"/"+pushed[name]); count != times {
			t.Errorf("the chart names %s %d times, want %d", pushed[name], count, times)
		}
	}
	about := tree.shell(t, "helm show chart oci://"+to+"/charts/peercache --version 1.2.3-rc.1 --plain-http 2>/dev/null")
	expectNoneOfTheTree(t, "the chart", rendered+about)
	var chart struct{ AppVersion string }
	if err := yaml.Unmarshal([]byte(about), &chart); err != nil || chart.AppVersion != "1.2.3-rc.1" {
		t.Errorf("appVersion %q, %v", chart.AppVersion, err)
	}
	tree.expectBundle(t, pushed)

	// The same archives have the same digests.
	tree.shell(t, "hack/release/push.sh "+to+" 1.2.3-rc.1")
	for name, reference := range tree.pushed(t) {
		if name != "chart" && reference != pushed[name] { // Helm writes the time into an archive
			t.Errorf("pushed again, %s is %s, and was %s", name, reference, pushed[name])
		}
	}
}

// TestPushOfAKit: whoever has a kit pushes the same without a compiler, and without what was built.
func TestPushOfAKit(t *testing.T) {
	tree := newPushTree(t)
	to := tree.registry + "/team/peercache"
	tree.shell(t, "hack/release/push.sh "+to+" 1.2.3")
	built := tree.pushed(t)
	kit, programs := t.TempDir(), t.TempDir()
	tree.shell(t, "hack/release/kit.sh && tar -xf $RELEASE_OUT/push-kit.tar -C "+kit)
	if err := os.WriteFile(filepath.Join(programs, "go"), []byte("#!/bin/sh\necho go $* >&2\nexit 9\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tree.shell(t, "export PEERCACHE_CACHE="+t.TempDir()+" PATH="+programs+":$PATH PUSH_KIT="+kit+"; hack/release/push.sh "+to+" 1.2.3")
	for name, reference := range tree.pushed(t) {
		if name != "chart" && reference != built[name] { // Helm writes the time into an archive
			t.Errorf("of a kit, %s is %s, and was %s", name, reference, built[name])
		}
	}
}

// expectNoneOfTheTree: nothing names images by the tag that they have in the source tree.
func expectNoneOfTheTree(t *testing.T, what, text string) {
	t.Helper()
	if found := regexp.MustCompile(`\S*`+regexp.QuoteMeta(registry)+`/\S*`).FindAllString(text, -1); found != nil {
		t.Errorf("%s names images that were not pushed: %q", what, found)
	}
}

func (p pushTree) expectBundle(t *testing.T, pushed map[string]string) {
	t.Helper()
	repository := strings.Split(pushed["bundle"], "@")[0]
	made := p.pull(t, pushed["bundle"])
	var config struct {
		Config struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(p.get(t, repository+"/blobs/"+made.Config.Digest), &config); err != nil {
		t.Fatal(err)
	}
	if label := config.Config.Labels["operators.operatorframework.io.bundle.package.v1"]; label != "peercache" {
		t.Errorf("the bundle is of package %q", label)
	}
	files := unpack(t, p.get(t, repository+"/blobs/"+made.Layers[0].Digest))
	var manifests strings.Builder
	for name, content := range files {
		if strings.HasPrefix(name, "manifests/") {
			manifests.Write(content)
		}
	}
	expectNoneOfTheTree(t, "the bundle", manifests.String())
	for _, image := range []string{"operator", "dataplane", "client"} {
		if !strings.Contains(manifests.String(), p.registry+"/"+pushed[image]) {
			t.Errorf("the bundle does not name %s", pushed[image])
		}
	}
}

// TestPushOfTwoArchitectures: an image of which there are two archives is one name for both.
func TestPushOfTwoArchitectures(t *testing.T) {
	tree := newPushTree(t)
	tree.build(t, "dataplane", "arm64", "-arm64")
	tree.shell(t, "hack/release/push.sh "+tree.registry+"/peercache")
	pushed := tree.pushed(t)
	var platforms []string
	for _, one := range tree.pull(t, pushed["dataplane"]).Manifests {
		platforms = append(platforms, one.Platform.OS+"/"+one.Platform.Architecture)
		if layers := tree.pull(t, "peercache/dataplane@"+one.Digest).Layers; len(layers) != 1 {
			t.Errorf("%s has %d layers", platforms[len(platforms)-1], len(layers))
		}
	}
	slices.Sort(platforms)
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("the index is of %q", platforms)
	}
	if others := tree.pull(t, pushed["operator"]).Manifests; others != nil {
		t.Errorf("the operator, of which there is one archive, has an index of %v", others)
	}
}

func TestPushIsRefused(t *testing.T) {
	tree := newPushTree(t)
	to := tree.registry + "/peercache"
	for name, test := range map[string]struct{ command, says string }{
		"to nowhere":            {"hack/release/push.sh ''", "REGISTRY='' is no place in a registry"},
		"to an address":         {"hack/release/push.sh https://" + to, "name host and path without a scheme"},
		"to a host alone":       {"hack/release/push.sh " + tree.registry, "is no place in a registry"},
		"as what is no version": {"hack/release/push.sh " + to + " latest", "TAG='latest' is no version"},
		"of arm64's of elsewhere": {`. hack/lib.sh; . hack/release/images/targets.sh; touch "$(image_archive dataplane arm64)"; hack/release/push.sh ` + to +
			` || status=$?; rm "$(image_archive dataplane arm64)"; exit ${status:-0}`, "-arm64.tar"},
		"of images of elsewhere": {`. hack/lib.sh; . hack/release/images/targets.sh; echo other > "$(image_archive client).inputs"; hack/release/push.sh ` + to, "image client has not been built of this tree"},
	} {
		t.Run(name, func(t *testing.T) {
			if said, err := tree.try(t, test.command); err == nil || !strings.Contains(said, test.says) {
				t.Errorf("error %v, says %q, want %q", err, said, test.says)
			}
		})
	}
}

// startRegistry runs the registry of the distribution project until the test ends, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	address, err := ports.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "registry.yaml")
	content := "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: " + t.TempDir() + "}}\nhttp: {addr: \"" + address + "\"}\n"
	if err := os.WriteFile(settings, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.CommandContext(t.Context(), "registry", "serve", settings)
	command.Stdout, command.Stderr = &said, &said
	command.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	if err := command.Start(); err != nil {
		t.Fatalf("%v: run `make test-push`, which builds it", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = connection.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry does not listen: %v: %s", err, said.String())
		}
	}
}

// pack writes files as tar.
func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for name, content := range files {
		if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}
