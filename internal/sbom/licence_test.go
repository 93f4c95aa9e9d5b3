// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

const forMachines = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: library

Files: *
Copyright: 2020 somebody
License: BSD-3-clause

Files: src/a.c
Copyright: 2021 somebody
License: GPL-2+ or Expat

Files: src/b.c
Copyright: nobody
License: public-domain

License: BSD-3-clause
 Redistribution and use in source and binary forms ...

License: public-domain
 This file was put into the public domain
 by its author.
`

func TestDebianLicence(t *testing.T) {
	for name, test := range map[string]struct {
		copyright, expression string
		quotes                map[string]string
	}{
		"of Debian's form": {
			forMachines, "(GPL-2.0-or-later OR MIT) AND BSD-3-Clause AND LicenseRef-libc-2-public-domain",
			map[string]string{"LicenseRef-libc-2-public-domain": "This file was put into the public domain\nby its author.\n"},
		},
		"of free text": {"You may copy it.\n", "LicenseRef-libc-2", map[string]string{"LicenseRef-libc-2": "You may copy it.\n"}},
		"with an exception": {
			"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: GPL-3+ with GCC exception\n",
			"LicenseRef-libc-2-GPL-3-with-GCC-exception",
			map[string]string{"LicenseRef-libc-2-GPL-3-with-GCC-exception": "GPL-3+ with GCC exception"},
		},
		"missing": {"", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := debianLicence("libc++2", test.copyright)
			if got.expression != test.expression || len(got.texts) != len(test.quotes) {
				t.Errorf("expression %q and %d quotes, want %q and %d", got.expression, len(got.texts), test.expression, len(test.quotes))
			}
			for _, quote := range got.texts {
				if quote.Text != test.quotes[quote.ID] {
					t.Errorf("%s says %q, want %q", quote.ID, quote.Text, test.quotes[quote.ID])
				}
			}
		})
	}
}

// TestCompiledIn: what programs are compiled from is listed beside what is installed, with its licence.
func TestCompiledIn(t *testing.T) {
	const compiled = `Package: libasio-dev
Status: install ok installed
Architecture: all
Version: 1:1.22.1-1

Package: pybind11
Status: install ok installed
Version: 3.0.4
Origin: pypi
`
	made := list(t, save(t, pack(t,
		file{"var/lib/dpkg/status", dpkgStatus + `
Package: libstdc++6
Status: install ok installed
Source: gcc-12
Architecture: amd64
Version: 12.2.0-14

Package: gcc-12-base
Status: install ok installed
Source: gcc-12 (12.2.0-14)
Architecture: amd64
Version: 12.2.0-14
`},
		file{"usr/share/doc/gcc-12-base/copyright", forMachines}, file{"usr/lib/os-release", "ID=debian\nVERSION_ID=\"12\"\n"},
		file{"usr/share/peercache/compiled-in", compiled},
		file{"usr/share/doc/libasio-dev/copyright", strings.ReplaceAll(forMachines, "BSD-3-clause", "BSL-1.0")},
		file{"usr/share/doc/libasio-dev/examples/copyright", "not of the package"},
		file{"usr/share/doc/libc6", "-> libc-common"},
		file{"usr/share/doc/libc-common/copyright", forMachines},
		file{"usr/share/doc/pybind11/copyright", "Redistribution and use in source and binary forms ... to endorse or promote products"},
	)))
	want := []string{
		"pkg:deb/debian/gcc-12-base@12.2.0-14?arch=amd64&distro=debian-12 BSD-3-Clause CONTAINS",
		"pkg:deb/debian/libasio-dev@1%3A1.22.1-1?arch=all&distro=debian-12 BSL-1.0 STATIC_LINK",
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12 BSD-3-Clause CONTAINS",
		"pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&distro=debian-12 BSD-3-Clause CONTAINS",
		"pkg:pypi/pybind11@3.0.4 BSD-3-Clause STATIC_LINK",
	}
	var got []string
	for _, listed := range made.Packages[1:] {
		kind := ""
		for _, relation := range made.Relationships {
			if relation.Related == listed.SPDXID {
				kind = relation.Type
			}
		}
		// The first of its licences that has a name of its own.
		licence := regexp.MustCompile(`BSL-1.0|BSD-3-Clause|NOASSERTION`).FindString(listed.Declared)
		got = append(got, listed.ExternalRefs[0].Locator+" "+licence+" "+kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	expectQuoted(t, made)
}

// expectQuoted: every licence that an expression refers to is quoted, and the other way round.
func expectQuoted(t *testing.T, made document) {
	t.Helper()
	var named, known []string
	for _, listed := range made.Packages {
		named = append(named, regexp.MustCompile(`LicenseRef-[A-Za-z0-9.-]+`).FindAllString(listed.Declared, -1)...)
	}
	for _, quote := range made.Quoted {
		known = append(known, quote.ID)
		if quote.Text == "" {
			t.Errorf("%s has no text", quote.ID)
		}
	}
	slices.Sort(named)
	slices.Sort(known)
	if !slices.Equal(slices.Compact(named), known) {
		t.Errorf("expressions name %q, quoted are %q", named, known)
	}
}
