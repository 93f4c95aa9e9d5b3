// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
)

// The values and keys of the extra config by which injection recognises PeerCache.
const (
	BackendName  = "peercache"
	KeySocket    = "socket"
	KeyDiscovery = "discovery_addr"
)

// CommonSettings are the keys that the Python store needs in every pod. allocator: shm makes SGLang put its host pool into a
// memfd, which the store can pass on to the node.
func CommonSettings() []engines.Setting {
	return []engines.Setting{
		{Key: "backend_name", Value: `"` + BackendName + `"`},
		{Key: "module_path", Value: `"peercache.store"`},
		{Key: "class_name", Value: `"PeerCacheStore"`},
		{Key: "interface_v1", Value: "1"},
		{Key: "allocator", Value: `"shm"`},
	}
}

// SocketSettings are the settings for a node behind a socket.
func SocketSettings(socket string) []engines.Setting {
	// No escaping is needed: the API server allows no character in the name of a group that JSON escapes.
	return append(CommonSettings(), engines.Setting{Key: KeySocket, Value: `"` + socket + `"`})
}

// Settings are the settings for a node behind a socket, or in the process.
func Settings(link engines.Link) []engines.Setting {
	if link.Socket != "" {
		return SocketSettings(link.Socket)
	}
	return append(CommonSettings(), link.Node...)
}

// NewExtraConfig is the value where the user gives none. It is JSON without blanks, so that it stays one word in an unquoted
// shell variable.
func NewExtraConfig(settings []engines.Setting) string {
	return "{" + JoinSettings(settings) + "}"
}

// JoinSettings writes settings as the members of a JSON object.
func JoinSettings(list []engines.Setting) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = `"` + s.Key + `":` + s.Value
	}
	return strings.Join(parts, ",")
}

// AllFlags is the value of PEERCACHE_SGLANG_ARGS: every flag, for word splitting.
func AllFlags(settings []engines.Setting) string {
	return strings.Join([]string{
		Hierarchical.Name, StorageBackend.Name, DynamicBackend, ExtraConfig.Name, NewExtraConfig(settings),
	}, " ")
}
