// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/url"
	"path"
	"strings"
)

// The files of Debian, without the leading slash.
const (
	packagesFile = "var/lib/dpkg/status"
	releaseFile  = "usr/lib/os-release"
	// compiledFile lists, in the form of packagesFile, what programs of the image are compiled from besides their own
	// source: libraries of headers alone, and static ones. dataplane/cmake/compiled-in.sh writes it.
	compiledFile = "usr/share/peercache/compiled-in"
	docFolder    = "usr/share/doc/"
)

// source is the package of sources that a package is built from.
func source(entry map[string]string) string {
	name, _, _ := strings.Cut(cmp.Or(entry["Source"], entry["Package"]), " ") // a version may follow
	return name
}

// bySource returns for each package of sources one that says under which licence it is: packages of one source may share that,
// and images of Debian leave out the links to it.
func (f files) bySource(blocks []string) map[string]string {
	found := map[string]string{}
	for _, block := range blocks {
		if entry := fields(block, ": "); f.copyright(entry["Package"]) != nil && entry["Package"] != "" {
			found[source(entry)] = entry["Package"]
		}
	}
	return found
}

// isCopyright says whether a file has the licence of a package, or is a folder of such a file and may be a link.
func isCopyright(name string) bool {
	folder := strings.TrimSuffix(name, "/copyright")
	return strings.HasPrefix(folder, docFolder) && !strings.Contains(folder[len(docFolder):], "/")
}

// linkMark begins the content of a symbolic link, which goes on with its target.
const linkMark = "\x00"

// copyright returns what a package says of its licence. A package that belongs to another may link to the folder or file of that.
func (f files) copyright(name string) []byte {
	folder := docFolder + name
	if to, link := strings.CutPrefix(string(f[folder]), linkMark); link {
		folder = path.Join(path.Dir(folder), to)
	}
	file := folder + "/copyright"
	if to, link := strings.CutPrefix(string(f[file]), linkMark); link {
		file = path.Join(path.Dir(file), to)
	}
	return f[file]
}

// debianPackages are the packages of a list that are installed, with their licences.
func (f files) debianPackages(list string) (parts []part) {
	blocks := strings.Split(string(f[list]), "\n\n")
	siblings := f.bySource(blocks)
	about := fields(string(f[releaseFile]), "=")
	distribution := strings.Trim(about["ID"], `"`)
	for _, block := range blocks {
		entry := fields(block, ": ")
		if entry["Status"] != "install ok installed" {
			continue
		}
		name, version := entry["Package"], entry["Version"]
		purl := "pkg:deb/" + distribution + "/" + url.QueryEscape(name) + "@" + url.QueryEscape(version) +
			"?arch=" + entry["Architecture"] + "&distro=" + distribution + "-" + strings.Trim(about["VERSION_ID"], `"`)
		copyright := string(f.copyright(name))
		if copyright == "" {
			copyright = string(f.copyright(siblings[source(entry)]))
		}
		terms := debianLicence(name, copyright)
		if entry["Origin"] == "pypi" {
			purl = "pkg:pypi/" + name + "@" + url.QueryEscape(version)
			terms = licence{expression: recognise(copyright)}
		}
		parts = append(parts, part{name: name, version: version, purl: purl, compiled: list == compiledFile, licence: terms})
	}
	return parts
}

// fields returns the lines of a text with a separator. It leaves out continued lines, which begin with a space.
func fields(text, separator string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), separator); ok && !strings.HasPrefix(key, " ") {
			found[key] = value
		}
	}
	return found
}
