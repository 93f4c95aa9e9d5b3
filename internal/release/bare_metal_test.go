// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const bareMetal = root + "/config/bare-metal"

// checkOptions fails for options that peercached does not have. Each is a name, as in the table of the data plane.
func checkOptions(t *testing.T, where string, names []string) {
	t.Helper()
	_, table, found := strings.Cut(read(t, "dataplane/src/node/config/config.cc"), "constexpr ConfigOption kOptions[] = {")
	table, _, ended := strings.Cut(table, "\n};")
	known := []string{"config"}
	for _, match := range regexp.MustCompile(`(?m)^    \{"([a-z0-9-]+)",`).FindAllStringSubmatch(table, -1) {
		known = append(known, match[1])
	}
	if !found || !ended || len(known) < 50 {
		t.Fatalf("config.cc has no table of options: %v", known)
	}
	if len(names) == 0 {
		t.Errorf("%s sets no option", where)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			t.Errorf("%s sets %s, which peercached does not have", where, name)
		}
	}
}

// optionsIn returns the names of the options in the form --name=value or --name.
func optionsIn(line string) (names []string) {
	for _, match := range regexp.MustCompile(`(?:^|[\s"])--([a-z0-9-]+)`).FindAllStringSubmatch(line, -1) {
		names = append(names, match[1])
	}
	return names
}

// unit returns the settings of a systemd unit.
func unit(t *testing.T) map[string]string {
	t.Helper()
	settings := map[string]string{}
	for line := range strings.Lines(read(t, "config/bare-metal/peercached.service")) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is && !strings.HasPrefix(name, "#") {
			if _, twice := settings[name]; twice {
				t.Errorf("the unit has %s twice", name)
			}
			settings[name] = value
		}
	}
	return settings
}

// TestUnit: the unit runs what peercached accepts, confines it, and hides no device of RDMA.
func TestUnit(t *testing.T) {
	settings := unit(t)
	checkOptions(t, "the unit", optionsIn(settings["ExecStart"]))
	for name, want := range map[string]string{
		"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "LimitMEMLOCK": "infinity", "User": "peercache",
		"RuntimeDirectory": "peercache", "Restart": "always",
	} {
		if got, set := settings[name]; !set || got != want {
			t.Errorf("the unit has %s=%s, want %s", name, got, want)
		}
	}
	// ProtectClock allows a device, and with that no other one.
	for _, hides := range []string{"PrivateDevices", "ProtectClock", "DevicePolicy", "DeviceAllow", "PrivateNetwork"} {
		if value, set := settings[hides]; set {
			t.Errorf("%s=%s keeps members from RDMA devices or from peers", hides, value)
		}
	}
}

// TestUnitIsVerified: systemd accepts the unit, and counts it among those that are confined.
func TestUnitIsVerified(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatalf("systemd-analyze is missing: run hack/dev/deps.sh: %v", err)
	}
	settings := unit(t)
	program, _, _ := strings.Cut(settings["ExecStart"], " ")
	installed := filepath.Join(t.TempDir(), "peercached.service")
	text := strings.Replace(read(t, "config/bare-metal/peercached.service"), program, "/bin/sh", 1) // which exists
	if err := os.WriteFile(installed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", installed}, {"security", "--offline=true", "--threshold=40", installed}} {
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
		}
		if args[0] == "verify" && strings.Contains(string(out), "peercached.service:") {
			t.Errorf("systemd warns:\n%s", out)
		}
	}
}

// TestConfigurationOfBareMetal: the sample has options that peercached has, and names the token where the page puts it.
func TestConfigurationOfBareMetal(t *testing.T) {
	var names []string
	token := ""
	for line := range strings.Lines(read(t, "config/bare-metal/peercached.toml")) {
		if name, value, is := strings.Cut(line, " = "); is && !strings.HasPrefix(line, "#") {
			names = append(names, name)
			if name == "auth-token-file" {
				token = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	checkOptions(t, "peercached.toml", names)
	if page := read(t, "docs/bare-metal.md"); token == "" || !strings.Contains(page, "> "+token+")") {
		t.Errorf("docs/bare-metal.md makes no token at %q", token)
	}
}

// TestCompose: options, images and files of the compose file exist.
func TestCompose(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Profiles    []string
			NetworkMode string   `json:"network_mode"`
			CapDrop     []string `json:"cap_drop"`
			SecurityOpt []string `json:"security_opt"`
			Ulimits     map[string]int
			Volumes     []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "config/bare-metal/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	member := compose.Services["member"]
	checkOptions(t, "the member", optionsIn(strings.Join(member.Command, " ")))
	if want := registry + "/dataplane:" + version(t); len(compose.Services) != 3 || member.Image != want {
		t.Errorf("%d services; the member's image is %s, want %s", len(compose.Services), member.Image, want)
	}
	if len(member.Profiles) != 0 || !slices.Equal(member.CapDrop, []string{"ALL"}) || !slices.Equal(member.SecurityOpt, []string{"no-new-privileges:true"}) ||
		member.Ulimits["memlock"] != -1 {
		t.Errorf("the member is %+v", member)
	}
	for name, service := range compose.Services {
		if service.NetworkMode != "host" {
			t.Errorf("%s has network %q", name, service.NetworkMode)
		}
		if !regexp.MustCompile(`^(ghcr\.io|docker\.io)/[a-z/]+:v?[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(service.Image) {
			t.Errorf("%s has image %s, which is not of one version", name, service.Image)
		}
		if name != "member" && !slices.Equal(service.Profiles, []string{"monitoring"}) {
			t.Errorf("%s runs on every machine: %v", name, service.Profiles)
		}
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(source, ".") {
				if _, err := os.Stat(filepath.Join(bareMetal, source)); err != nil {
					t.Errorf("%s mounts %s: %v", name, source, err)
				}
			} else if _, named := compose.Volumes[source]; !named && !strings.HasPrefix(source, "/") {
				t.Errorf("%s mounts %s, which is no volume", name, source)
			}
		}
	}
}

// TestMembersHaveTheLabelsOfTheRules: rules and dashboards select by the labels that members.yml gives.
func TestMembersHaveTheLabelsOfTheRules(t *testing.T) {
	var targets []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := yaml.Unmarshal([]byte(read(t, "config/bare-metal/members.yml")), &targets); err != nil || len(targets) != 1 || len(targets[0].Targets) == 0 {
		t.Fatalf("targets are %v (error %v)", targets, err)
	}
	rules := read(t, "config/bare-metal/rules.yml")
	for _, name := range []string{"namespace", "peercache_io_cluster"} {
		if matcher := name + `="` + targets[0].Labels[name] + `"`; targets[0].Labels[name] == "" || !strings.Contains(rules, matcher) {
			t.Errorf("no rule selects %s", matcher)
		}
	}
}

// TestBareMetalArchive: the archive has the files of both folders, where the compose file expects them.
func TestBareMetalArchive(t *testing.T) {
	out := t.TempDir()
	script := exec.CommandContext(t.Context(), root+"/hack/release/bare-metal.sh")
	script.Env = append(os.Environ(), "RELEASE_OUT="+out)
	if text, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	top := "peercache-bare-metal-" + version(t)
	file, err := os.Open(filepath.Join(out, "bare-metal", top+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if page := read(t, "docs/bare-metal.md"); !strings.Contains(page, top+".tar.gz") {
		t.Errorf("docs/bare-metal.md does not name %s.tar.gz", top)
	}
	if link := unit(t)["Documentation"]; !strings.Contains(link, "/v"+version(t)+"/") {
		t.Errorf("the unit links to %s, which is not of version %s", link, version(t))
	}
	var got []string
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			got = append(got, header.Name)
		}
	}
	want := []string{top + "/LICENSE"}
	for _, folder := range []string{"bare-metal", "grafana"} {
		err := fs.WalkDir(os.DirFS(root+"/config"), folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && entry.Name() != "kustomization.yaml" {
				want = append(want, top+"/"+path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the archive has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
