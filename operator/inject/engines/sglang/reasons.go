// SPDX-License-Identifier: Apache-2.0

package sglang

import "strconv"

// OtherBackendGiven is the reason where the user chose another storage backend.
func OtherBackendGiven(backend string) string {
	return "uses " + StorageBackend.Name + " " + backend + ", a backend of the user's own"
}

// DecodeWithoutRadixCache is the reason for a decode server without a radix cache, where SGLang does not start with
// HiCache.
func DecodeWithoutRadixCache() string {
	return "is a decode server without a radix cache, where SGLang refuses HiCache: add " +
		DecodeRadixCache.Name + " to read pages, or " + DecodeOffload.Name + " to write them"
}

// ConfigInFile is the reason where the extra config is in a file, which injection cannot read.
func ConfigInFile(path string) string {
	return "reads " + ExtraConfig.Name + " from the file " + path +
		", which cannot be completed here: write it inline as JSON, or remove the flag"
}

// ConfigNotObject is the reason where the extra config is not a JSON object.
func ConfigNotObject() string {
	return "gives " + ExtraConfig.Name + " a value that is not a JSON object: write {\"key\":value,...}"
}

// ConfigOtherBackend is the reason where the extra config names another backend.
func ConfigOtherBackend(key, value string) string {
	return "loads a backend of the user's own (" + key + " " + value + " in " + ExtraConfig.Name + ")"
}

// ConfigOwnNode is the reason where the extra config starts a node inside SGLang beside that of the cluster.
func ConfigOwnNode() string {
	return "runs a PeerCache node of its own (" + KeyDiscovery + " in " + ExtraConfig.Name +
		"): remove that key to use the cluster's node"
}

// NoteOtherBackend is the note where a script that starts SGLang names another storage backend.
func NoteOtherBackend(backend string) string {
	return "names " + StorageBackend.Name + " " + backend + " in its script, a backend of the user's own: remove it there, " +
		"or the label of the pod"
}

var pageSize = PageSize.Name + " " + strconv.Itoa(PageTokens)

// NotePageOfToken is the note where the user chose pages of one token.
func NotePageOfToken() string {
	return "has " + PageSize.Name + " 1: each token is looked up and moved by itself; write " + pageSize + " unless the model needs pages of one token"
}

// NoteNoPageSize is the note where injection adds no page size to the flags.
func NoteNoPageSize(why string) string {
	return "got no " + PageSize.Name + " because it " + why + ": write " + pageSize + " or what suits; without one SGLang looks up and moves each token by itself"
}

// NotePageSizeInScript is the note where a script gives no page size.
func NotePageSizeInScript() string {
	return "shows no " + PageSize.Name + " in its script, without which SGLang looks up and moves each token by itself: write " + pageSize
}
