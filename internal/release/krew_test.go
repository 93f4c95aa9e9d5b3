// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

// everyPlatform takes minutes and most of a gigabyte of the compiler's cache, unless that has the other platforms
// already.
var everyPlatform = flag.Bool("every-platform", false, "build kubectl-peercache for all platforms, not only for this one")

// platforms returns the platforms for which the script builds by default.
func platforms(t *testing.T) []string {
	t.Helper()
	script, err := os.ReadFile(root + "/kubectl/krew/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^PLATFORMS="(.*)"$`).FindSubmatch(script)
	if found == nil {
		t.Fatal("kubectl/krew/build.sh names no PLATFORMS")
	}
	return strings.Fields(string(found[1]))
}

// plugin is the manifest as krew reads it.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string           `json:"version"`
		Homepage         string           `json:"homepage"`
		ShortDescription string           `json:"shortDescription"`
		Description      string           `json:"description"`
		Platforms        []pluginPlatform `json:"platforms"`
	} `json:"spec"`
}

type pluginPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

func TestKrewArchives(t *testing.T) {
	wanted := []string{runtime.GOOS + "/" + runtime.GOARCH}
	if *everyPlatform {
		wanted = platforms(t)
	}
	// go test reruns a cached test when a file that the test has read changes. The script reads this one.
	if _, err := os.ReadFile(root + "/kubectl/krew/peercache.yaml"); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	build := exec.CommandContext(t.Context(), root+"/kubectl/krew/build.sh", wanted...)
	build.Env = append(os.Environ(), "KREW_OUT="+out, "KREW_URL=https://example.com/release")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.ReadFile(filepath.Join(out, "peercache.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest plugin
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		t.Fatalf("the manifest is not what krew reads: %v\n%s", err, text)
	}
	version, err := os.ReadFile(root + "/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	spec := manifest.Spec
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" ||
		manifest.Metadata.Name != "peercache" || spec.Version != "v"+strings.TrimSpace(string(version)) || spec.Homepage == "" ||
		spec.ShortDescription == "" || spec.Description == "" || strings.Contains(string(text), "@@") {
		t.Errorf("the manifest lacks something that krew asks for:\n%s", text)
	}
	var named []string
	for _, p := range spec.Platforms {
		platform := p.Selector.MatchLabels["os"] + "/" + p.Selector.MatchLabels["arch"]
		named = append(named, platform)
		archive, err := os.ReadFile(filepath.Join(out, path.Base(p.URI)))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != p.SHA256 {
			t.Errorf("%s: the manifest says sha256 %s, the archive has %x", platform, p.SHA256, sum)
		}
		files := unpack(t, archive)
		licence, err := os.ReadFile(root + "/LICENSE")
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 2 || !bytes.Equal(files["LICENSE"], licence) {
			t.Errorf("%s: the archive holds %d files, and must hold the program and the licence", platform, len(files))
		}
		if got, err := platformOf(files[p.Bin]); err != nil || got != platform {
			t.Errorf("%s: the program is for %q (%v)", platform, got, err)
		}
	}
	if !slices.Equal(named, wanted) {
		t.Errorf("the manifest names %q, want %q", named, wanted)
	}
}

func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "kubectl-peercache" && header.Mode&0o111 != 0o111 {
			t.Errorf("%s cannot be run by everybody: mode %o", header.Name, header.Mode)
		}
		files[header.Name] = content
	}
}

// platformOf returns the platform for which a program was linked. On Linux it checks that the program needs no shared
// library.
func platformOf(program []byte) (string, error) {
	if file, err := elf.NewFile(bytes.NewReader(program)); err == nil {
		for _, part := range file.Progs {
			if part.Type == elf.PT_INTERP {
				return "", errors.New("it is linked with the machine's C library")
			}
		}
		arch := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[file.Machine]
		return "linux/" + arch, nil
	}
	file, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", fmt.Errorf("neither ELF nor Mach-O: %w", err)
	}
	return "darwin/" + map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[file.Cpu], nil
}

// systemCall matches the uses of package syscall. Signals have the same names on Linux and macOS.
var systemCall = regexp.MustCompile(`\bsyscall\.(\w+)`)

// TestPluginHasTheSameSourcesOnEveryPlatform checks that the packages of the plug-in have the same files on every platform and
// use nothing that differs. So a run need not compile them for each platform.
func TestPluginHasTheSameSourcesOnEveryPlatform(t *testing.T) {
	type listed struct {
		ImportPath, Dir  string
		GoFiles, Imports []string
	}
	const advice = "which is not the same everywhere: see with make test-krew whether it is there on every platform"
	var first map[string]listed
	for _, platform := range platforms(t) {
		system, arch, _ := strings.Cut(platform, "/")
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-e=false",
			"-json=ImportPath,Dir,GoFiles,Imports", "./kubectl/cmd/kubectl-peercache")
		list.Dir, list.Env = root, append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			if failed, ok := errors.AsType[*exec.ExitError](err); ok {
				t.Errorf("%s: %s", platform, failed.Stderr)
				continue
			}
			t.Fatal(err)
		}
		ours := map[string]listed{}
		for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
			var p listed
			if err := decoder.Decode(&p); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(p.ImportPath, "github.com/peercache/") {
				continue
			}
			ours[p.ImportPath] = p
			for _, name := range p.Imports {
				if name == "C" || strings.HasPrefix(name, "golang.org/x/sys/") {
					t.Errorf("%s: %s imports %s, %s", platform, p.ImportPath, name, advice)
				}
			}
			for _, file := range p.GoFiles {
				text, err := os.ReadFile(filepath.Join(p.Dir, file))
				if err != nil {
					t.Fatal(err)
				}
				for _, used := range systemCall.FindAllSubmatch(text, -1) {
					if !bytes.HasPrefix(used[1], []byte("SIG")) {
						t.Errorf("%s: %s uses %s, %s", platform, filepath.Join(p.Dir, file), used[0], advice)
					}
				}
			}
		}
		if len(ours) < 3 {
			t.Fatalf("%s: found %d packages only", platform, len(ours))
		}
		if first == nil {
			first = ours
		}
		if len(ours) != len(first) {
			t.Errorf("%s: it is made of %d packages, and here of %d", platform, len(ours), len(first))
		}
		for name, p := range ours {
			if !slices.Equal(p.GoFiles, first[name].GoFiles) {
				t.Errorf("%s: %s is made of %q, and here of %q", platform, name, p.GoFiles, first[name].GoFiles)
			}
		}
	}
}
