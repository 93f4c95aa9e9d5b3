// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// BackendChoice matches the choice of a storage backend in a script, or in words that are joined by line ends. A name that a
	// variable holds is not visible.
	BackendChoice = regexp.MustCompile(`--hicache-storage-backend["'=,\\\s]+[A-Za-z0-9_]+`)
	// ChosenBackend matches the name in it.
	ChosenBackend = regexp.MustCompile(`[A-Za-z0-9_]+$`)
)

// OurBackends are the values of StorageBackend that PeerCache has.
var OurBackends = []string{DynamicBackend, BackendName}

// OtherBackend returns a backend of somebody else that the words choose, or a script in them; "" where none is visible.
func OtherBackend(words []string) string {
	for _, choice := range BackendChoice.FindAllString(strings.Join(words, "\n"), -1) {
		if name := ChosenBackend.FindString(choice); !slices.Contains(OurBackends, name) {
			return name
		}
	}
	return ""
}
