// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/url"
	"runtime/debug"
	"strings"
)

// goModules are those that a program is linked of, with Go's own library.
func goModules(program *debug.BuildInfo) []part {
	runtime := strings.TrimPrefix(program.GoVersion, "go")
	parts := []part{{"stdlib", program.GoVersion, "pkg:golang/stdlib@" + url.QueryEscape(runtime)}}
	for _, module := range program.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		parts = append(parts, part{module.Path, module.Version, "pkg:golang/" + module.Path + "@" + url.QueryEscape(module.Version)})
	}
	return parts
}

// debianPackages are those that dpkg says are installed.
func debianPackages(status, release []byte) (parts []part) {
	about := fields(string(release), "=")
	distribution := strings.Trim(about["ID"], `"`)
	for block := range strings.SplitSeq(string(status), "\n\n") {
		entry := fields(block, ": ")
		if entry["Status"] != "install ok installed" {
			continue
		}
		parts = append(parts, part{entry["Package"], entry["Version"], "pkg:deb/" + distribution + "/" + url.QueryEscape(entry["Package"]) +
			"@" + url.QueryEscape(entry["Version"]) + "?arch=" + entry["Architecture"] +
			"&distro=" + distribution + "-" + strings.Trim(about["VERSION_ID"], `"`)})
	}
	return parts
}

// fields are the lines of a text with a separator; continued lines begin with a space and are left out.
func fields(text, separator string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), separator); ok && !strings.HasPrefix(key, " ") {
			found[key] = value
		}
	}
	return found
}
