// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
)

// document is SPDX 2.3, as far as we use it.
type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []spdxPackage  `json:"packages"`
	Relationships     []relationship `json:"relationships"`
	Quoted            []quoted       `json:"hasExtractedLicensingInfos,omitempty"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name             string      `json:"name"`
	SPDXID           string      `json:"SPDXID"`
	VersionInfo      string      `json:"versionInfo"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	Concluded        string      `json:"licenseConcluded"`
	Declared         string      `json:"licenseDeclared"`
	Copyright        string      `json:"copyrightText"`
	Purpose          string      `json:"primaryPackagePurpose,omitempty"`
	File             string      `json:"packageFileName,omitempty"`
	Checksums        []checksum  `json:"checksums,omitempty"`
	ExternalRefs     []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	documentID = "SPDXRef-DOCUMENT"
	imageID    = "SPDXRef-Image"
	unknown    = "NOASSERTION"
)

// describe returns the document of an image. The same archive gives the same document.
func describe(name string, from image) document {
	base, version, _ := strings.Cut(path.Base(name), ":")
	made := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: documentID, Name: name,
		DocumentNamespace: "https://github.com/peercache/peercache/sbom/" + base + "-" + from.sum,
		CreationInfo:      creation{from.made.Format(time.RFC3339), []string{"Organization: PeerCache", "Tool: peercache-sbom"}},
		Packages: []spdxPackage{{
			Name: strings.TrimSuffix(name, ":"+version), SPDXID: imageID, VersionInfo: version, DownloadLocation: unknown,
			Concluded: unknown, Declared: unknown, Copyright: unknown,
			Purpose: "CONTAINER", File: from.file, Checksums: []checksum{{"SHA256", from.sum}},
		}},
		Relationships: []relationship{{documentID, "DESCRIBES", imageID}},
	}
	for i, part := range from.parts {
		id := fmt.Sprintf("SPDXRef-%d-%s", i+1, notInID.ReplaceAllString(part.name, "-"))
		made.Packages = append(made.Packages, spdxPackage{
			Name: part.name, SPDXID: id, VersionInfo: part.version, DownloadLocation: unknown,
			Concluded: unknown, Declared: cmp.Or(part.licence.expression, unknown), Copyright: unknown,
			ExternalRefs: []reference{{"PACKAGE-MANAGER", "purl", part.purl}},
		})
		made.Quoted = append(made.Quoted, part.licence.texts...)
		kind := "CONTAINS"
		if part.compiled {
			kind = "STATIC_LINK"
		}
		made.Relationships = append(made.Relationships, relationship{imageID, kind, id})
	}
	return made
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]`)
