// SPDX-License-Identifier: Apache-2.0

package sglang

import "strings"

// The values and keys of the extra config by which injection recognises PeerCache.
const (
	BackendName  = "peercache"
	KeySocket    = "socket"
	KeyDiscovery = "discovery_addr"
)

// Setting is one key of the extra config with its value as JSON.
type Setting struct {
	Key, Value string
	// Instead is another spelling of the key.
	Instead string
}

// CommonSettings are the keys that the Python store needs in every pod. allocator: shm makes SGLang put its host pool into a
// memfd, which the store can pass on to the node.
func CommonSettings() []Setting {
	return []Setting{
		{Key: "backend_name", Value: `"` + BackendName + `"`},
		{Key: "module_path", Value: `"peercache.store"`},
		{Key: "class_name", Value: `"PeerCacheStore"`},
		{Key: "interface_v1", Value: "1"},
		{Key: "allocator", Value: `"shm"`},
	}
}

// SocketSettings are the settings for a node behind a socket.
func SocketSettings(socket string) []Setting {
	// No escaping is needed: the API server allows no character in the name of a group that JSON escapes.
	return append(CommonSettings(), Setting{Key: KeySocket, Value: `"` + socket + `"`})
}

// NewExtraConfig is the value where the user gives none. It is JSON without blanks, so that it stays one word in an unquoted
// shell variable.
func NewExtraConfig(settings []Setting) string {
	return "{" + JoinSettings(settings) + "}"
}

// JoinSettings writes settings as the members of a JSON object.
func JoinSettings(list []Setting) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = `"` + s.Key + `":` + s.Value
	}
	return strings.Join(parts, ",")
}

// AllFlags is the value of PEERCACHE_SGLANG_ARGS: every flag, for word splitting.
func AllFlags(settings []Setting) string {
	return strings.Join([]string{
		Hierarchical.Name, StorageBackend.Name, DynamicBackend, ExtraConfig.Name, NewExtraConfig(settings),
	}, " ")
}
