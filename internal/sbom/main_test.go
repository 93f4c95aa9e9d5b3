// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const dpkgStatus = `Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 Version: not this one

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
`

type file struct{ name, content string }

// pack writes files as tar. Content that begins with an arrow makes a link.
func pack(t *testing.T, files ...file) string {
	t.Helper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: 0o755, Size: int64(len(file.content))}
		if to, link := strings.CutPrefix(file.content, "-> "); link {
			*header = tar.Header{Name: file.name, Typeflag: tar.TypeSymlink, Linkname: to}
			file.content = ""
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(file.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

// save writes an image of these layers as `docker save` does.
func save(t *testing.T, layers ...string) string {
	t.Helper()
	entries := []file{{"config.json", "{}"}}
	var names []string
	for i, layer := range layers {
		names = append(names, string(rune('a'+i))+"/layer.tar")
		entries = append(entries, file{names[i], layer})
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "Layers": names}})
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(archive, []byte(pack(t, append(entries, file{"manifest.json", string(manifest)})...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return archive
}

// list returns the document of an image, and fails on unknown fields.
func list(t *testing.T, archive string) document {
	t.Helper()
	var output bytes.Buffer
	if err := run([]string{"registry.test:5000/operator:1.2.3", archive}, &output); err != nil {
		t.Fatal(err)
	}
	var made document
	if err := json.Unmarshal(output.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

func purls(made document) (list []string) {
	for _, listed := range made.Packages[1:] {
		list = append(list, listed.ExternalRefs[0].Locator)
	}
	return list
}

func build(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", program, source)
	command.Dir = filepath.Join("..", "..")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestOperator compares the list of the operator's image with the modules that the go command lists for the operator.
func TestOperator(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{end}}{{end}}", "./operator")
	command.Dir = filepath.Join("..", "..")
	said, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for module := range strings.FieldsSeq(string(said)) {
		want = append(want, "pkg:golang/"+module)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	made := list(t, save(t, pack(t, file{"usr/local/bin/peercache-operator", build(t, "./operator")})))
	for _, listed := range made.Packages[1:] {
		if listed.Declared == unknown {
			t.Errorf("the licence of %s %s is not known", listed.Name, listed.VersionInfo)
		}
	}
	var got []string
	for _, purl := range purls(made) {
		if !strings.HasPrefix(purl, "pkg:golang/stdlib@") {
			got = append(got, strings.ReplaceAll(purl, "%2B", "+"))
		}
	}
	if len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("listed are\n%v, built in are\n%v", got, want)
	}
}

func TestDebian(t *testing.T) {
	release := file{"usr/lib/os-release", "ID=debian\nVERSION_ID=\"12\"\n"}
	old := pack(t, file{"var/lib/dpkg/status", "Package: old\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n"}, release)
	got := purls(list(t, save(t, old, pack(t, file{"./var/lib/dpkg/status", dpkgStatus}))))
	if want := []string{"pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12"}; !slices.Equal(got, want) {
		t.Errorf("listed are %v, want %v", got, want)
	}
}

// TestEqualLayers checks an archive with two equal layers, which has one of them and a link to it.
func TestEqualLayers(t *testing.T) {
	status := pack(t, file{"var/lib/dpkg/status", dpkgStatus})
	if got := purls(list(t, save(t, "-> ../b/layer.tar", status))); len(got) != 1 {
		t.Errorf("with the link first there is %v", got)
	}
	if got := purls(list(t, save(t, status, pack(t, file{"var/lib/dpkg/.wh.status", ""}), "-> ../a/layer.tar"))); len(got) != 1 {
		t.Errorf("with the link last there is %v", got)
	}
}

// TestRemoved checks that a part that a later layer removes is not listed.
func TestRemoved(t *testing.T) {
	status := file{"var/lib/dpkg/status", dpkgStatus}
	program := file{"opt/tools/sbom", build(t, "./internal/sbom")}
	for _, gone := range []string{"opt/tools/.wh.sbom", "opt/.wh.tools", "opt/tools/.wh..wh..opq"} {
		got := purls(list(t, save(t, pack(t, status, program), pack(t, file{gone, ""}))))
		if len(got) != 1 || !strings.Contains(got[0], "libc6") {
			t.Errorf("after %s there is %v", gone, got)
		}
	}
	if got := purls(list(t, save(t, pack(t, status, program)))); len(got) != 2 {
		t.Errorf("with the program there is %v", got)
	}
}

// TestForm: the fields that SPDX 2.3 requires, in its forms.
func TestForm(t *testing.T) {
	archive := save(t, pack(t, file{"var/lib/dpkg/status", dpkgStatus}))
	made := list(t, archive)
	if made.SPDXVersion != "SPDX-2.3" || made.DataLicense != "CC0-1.0" || made.SPDXID != "SPDXRef-DOCUMENT" || made.Name == "" {
		t.Errorf("the document is %+v", made)
	}
	if !regexp.MustCompile(`^https://[^#]+$`).MatchString(made.DocumentNamespace) {
		t.Errorf("namespace %q", made.DocumentNamespace)
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", made.CreationInfo.Created); err != nil {
		t.Error(err)
	}
	for _, creator := range made.CreationInfo.Creators {
		if !regexp.MustCompile(`^(Person|Organization|Tool): .`).MatchString(creator) {
			t.Errorf("creator %q", creator)
		}
	}
	image := made.Packages[0]
	if image.Name != "registry.test:5000/operator" || image.VersionInfo != "1.2.3" || len(image.Checksums) != 1 || len(image.Checksums[0].Value) != 64 {
		t.Errorf("the image is %+v", image)
	}
	known := map[string]bool{made.SPDXID: true}
	for _, listed := range made.Packages {
		if !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(listed.SPDXID) || known[listed.SPDXID] || listed.Name == "" || listed.DownloadLocation == "" {
			t.Errorf("package %+v", listed)
		}
		known[listed.SPDXID] = true
	}
	for _, relation := range made.Relationships {
		if !known[relation.Element] || !known[relation.Related] {
			t.Errorf("relationship %+v is of what is not there", relation)
		}
	}
	expectQuoted(t, made)
	if len(made.Relationships) != len(made.Packages) {
		t.Errorf("%d relationships of %d packages", len(made.Relationships), len(made.Packages))
	}
}

func TestRefused(t *testing.T) {
	noImage := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(noImage, []byte(strings.Repeat("no tar ", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	noImageTar := filepath.Join(t.TempDir(), "files.tar")
	if err := os.WriteFile(noImageTar, []byte(pack(t, file{"a", "b"})), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"write sbom IMAGE ARCHIVE":          {"operator"},
		"no such file":                      {"operator:1", filepath.Join(t.TempDir(), "missing.tar")},
		"must be an image as `docker save`": {"operator:1", noImage},
		"nothing is known of what is in":    {"operator:1", save(t, pack(t, file{"etc/motd", "hello"}))},
		"manifest.json names 0 images":      {"operator:1", noImageTar},
	} {
		if err := run(args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want it to say %q", args, err, says)
		}
	}
}
