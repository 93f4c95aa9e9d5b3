// SPDX-License-Identifier: Apache-2.0

// Package peercache tells the version of this source tree, which every component shares.
package peercache

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version is the content of the file VERSION, such as "0.1.0".
func Version() string { return strings.TrimSpace(version) }
