// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// goModules are the modules of which a program is linked, with Go's own library. Their licences come with addGoLicences.
func goModules(program *debug.BuildInfo) []part {
	runtime := strings.TrimPrefix(program.GoVersion, "go")
	parts := []part{{
		name: "stdlib", version: program.GoVersion, purl: "pkg:golang/stdlib@" + url.QueryEscape(runtime),
		compiled: true, licence: licence{expression: "BSD-3-Clause"},
	}}
	for _, module := range program.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		parts = append(parts, part{
			name: module.Path, version: module.Version, purl: "pkg:golang/" + module.Path + "@" + url.QueryEscape(module.Version),
			compiled: true, module: module.Path + "@" + module.Version,
		})
	}
	return parts
}

// addGoLicences fills in the licences of modules from their sources, which the go command has or fetches.
func addGoLicences(parts []part) error {
	args := []string{"mod", "download", "-json"}
	for _, p := range parts {
		if p.module != "" {
			args = append(args, p.module)
		}
	}
	if len(args) == 3 {
		return nil
	}
	var said bytes.Buffer
	command := exec.Command("go", args...) //nolint:noctx // modules that a program names; main ends with it
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("the sources of the modules, for their licences: %w: %s", err, said.String())
	}
	folders := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var module struct{ Path, Version, Dir string }
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("what go mod download says: %w", err)
		}
		folders[module.Path+"@"+module.Version] = module.Dir
	}
	for i := range parts {
		if folder := folders[parts[i].module]; folder != "" {
			if parts[i].licence, err = licenceOfSources(folder); err != nil {
				return err
			}
		}
	}
	return nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)

// licenceOfSources recognises the licence of a folder of sources by the files that hold its text.
func licenceOfSources(folder string) (licence, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return licence{}, err
	}
	var texts []string
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name())) //nolint:gosec // of Go's module cache
		if err != nil {
			return licence{}, err
		}
		texts = append(texts, string(text))
	}
	return licence{expression: recognise(strings.Join(texts, "\n"))}, nil
}
