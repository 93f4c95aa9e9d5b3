// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
)

// licence is what a part says of its own terms, as an SPDX expression. Terms without an SPDX name are quoted: the expression
// names them by a reference, and texts has what they say.
type licence struct {
	expression string
	texts      []quoted
}

type quoted struct {
	ID   string `json:"licenseId"`
	Name string `json:"name,omitempty"`
	Text string `json:"extractedText"`
}

// spdxNames are Debian's short names (and those of others that its files use) of licences that SPDX has.
var spdxNames = map[string]string{
	"apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "boost-1.0": "BSL-1.0", "bsl-1.0": "BSL-1.0",
	"bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause", "cc0": "CC0-1.0",
	"cc0-1.0": "CC0-1.0", "expat": "MIT", "mit": "MIT", "isc": "ISC", "mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0",
	"zlib": "Zlib", "x11": "X11", "unlicense": "Unlicense",
}

var gnuName = regexp.MustCompile(`(?i)^(A?GPL|LGPL|GFDL(?:-NIV)?)-([1-3](?:\.[0-9])?)(?:\.0)?(\+|-only|-or-later)?$`)

// spdxName returns the SPDX name of a licence that Debian calls so, or "".
func spdxName(name string) string {
	if known, ok := spdxNames[strings.ToLower(name)]; ok {
		return known
	}
	gnu := gnuName.FindStringSubmatch(name)
	if gnu == nil {
		return ""
	}
	family, version, ending := strings.ToUpper(gnu[1]), gnu[2], "-only"
	if !strings.Contains(version, ".") {
		version += ".0"
	}
	if gnu[3] == "+" || strings.EqualFold(gnu[3], "-or-later") {
		ending = "-or-later"
	}
	if family == "GFDL-NIV" {
		family, ending = "GFDL", "-no-invariants"+ending
		version = strings.TrimSuffix(version, ".0")
	}
	return family + "-" + version + ending
}

var (
	formatLine  = regexp.MustCompile(`(?m)^Format:.*copyright-format`)
	licenceLine = regexp.MustCompile(`(?m)^License:[ \t]*(\S.*)$`)
	both        = regexp.MustCompile(`(?i),? +(?:and/or|or|and) +`)
	notInName   = regexp.MustCompile(`[^A-Za-z0-9.]+`)
)

// debianLicence reads the copyright file of a package: in Debian's form for machines licence by licence, otherwise the whole
// file is quoted.
func debianLicence(name, copyright string) licence {
	if strings.TrimSpace(copyright) == "" {
		return licence{}
	}
	prefix := "LicenseRef-" + notInName.ReplaceAllString(name, "-")
	if !formatLine.MatchString(copyright) {
		return licence{prefix, []quoted{{ID: prefix, Name: "terms of " + name, Text: copyright}}}
	}
	var made licence
	var all []string
	for _, found := range licenceLine.FindAllStringSubmatch(copyright, -1) {
		expression := both.ReplaceAllStringFunc(strings.TrimSpace(found[1]), func(word string) string {
			if strings.Contains(strings.ToLower(word), "or") {
				return "\x00OR\x00"
			}
			return "\x00AND\x00"
		})
		terms := strings.Split(expression, "\x00")
		for i := 0; i < len(terms); i += 2 {
			terms[i] = made.term(prefix, strings.TrimSpace(terms[i]), copyright)
		}
		joined := strings.Join(terms, " ")
		if len(terms) > 1 {
			joined = "(" + joined + ")"
		}
		all = append(all, joined)
	}
	slices.Sort(all)
	made.expression = strings.Join(slices.Compact(all), " AND ")
	return made
}

// term names a licence as SPDX does, or quotes it.
func (l *licence) term(prefix, name, copyright string) string {
	if known := spdxName(name); known != "" {
		return known
	}
	id := prefix + "-" + strings.Trim(notInName.ReplaceAllString(name, "-"), "-")
	if !slices.ContainsFunc(l.texts, func(q quoted) bool { return q.ID == id }) {
		l.texts = append(l.texts, quoted{ID: id, Name: name, Text: textOf(name, copyright)})
	}
	return id
}

// textOf returns the longest text that a copyright file gives for a licence, or its name.
func textOf(name, copyright string) string {
	best := name
	for _, at := range licenceLine.FindAllStringSubmatchIndex(copyright, -1) {
		if strings.TrimSpace(copyright[at[2]:at[3]]) != name {
			continue
		}
		var text strings.Builder
		for line := range strings.Lines(strings.TrimPrefix(copyright[at[1]:], "\n")) {
			if !strings.HasPrefix(line, " ") {
				break
			}
			text.WriteString(strings.TrimPrefix(line, " "))
		}
		if text.Len() > len(best) {
			best = text.String()
		}
	}
	return best
}

// recognise returns the licences whose texts a text holds.
func recognise(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	var found []string
	for name, phrase := range map[string]string{
		"Apache-2.0": "apache license version 2.0, january 2004",
		"MPL-2.0":    "mozilla public license version 2.0",
		"MIT":        "permission is hereby granted, free of charge, to any person obtaining a copy",
		"ISC":        "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee",
		"BSL-1.0":    "boost software license - version 1.0",
	} {
		if strings.Contains(strings.ReplaceAll(text, ", version", " version"), phrase) {
			found = append(found, name)
		}
	}
	if strings.Contains(text, "redistribution and use in source and binary forms") {
		name := "BSD-2-Clause"
		if strings.Contains(text, "endorse or promote products") {
			name = "BSD-3-Clause"
		}
		found = append(found, name)
	}
	slices.Sort(found)
	return strings.Join(found, " AND ")
}
