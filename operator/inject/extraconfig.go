// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"slices"
	"strings"
)

const (
	backendName = "peercache"
	modulePath  = "peercache.store"

	keySocket    = "socket"
	keyDiscovery = "discovery_addr"
)

// setting is one key of the extra config with its value as JSON.
type setting struct {
	key, value string
	// instead is another spelling of the key.
	instead string
}

// commonSettings are the keys that the Python store needs in any pod. allocator: shm makes SGLang put its host
// pool into a memfd that the store can pass on to the node.
func commonSettings() []setting {
	return []setting{
		{key: "backend_name", value: `"` + backendName + `"`},
		{key: "module_path", value: `"` + modulePath + `"`},
		{key: "class_name", value: `"PeerCacheStore"`},
		{key: "interface_v1", value: "1"},
		{key: "allocator", value: `"shm"`},
	}
}

// socketSettings lead to a node behind a socket.
func socketSettings(socket string) []setting {
	// The name of a group has no character that JSON escapes: the API server checks it.
	return append(commonSettings(), setting{key: keySocket, value: `"` + socket + `"`})
}

// newExtraConfig is the value for a user who gives none: JSON without blanks, so that it stays one word in
// an unquoted shell variable.
func newExtraConfig(settings []setting) string {
	return "{" + joinSettings(settings) + "}"
}

// mergeExtraConfig adds the keys that are missing in the user's value, or says why the value is left alone.
// It works on the text, so that everything that the user wrote stays as it was written.
func mergeExtraConfig(value string, settings []setting) (merged, reason string) {
	text := strings.TrimSpace(value)
	var object map[string]json.RawMessage
	if strings.HasPrefix(text, "@") {
		return "", reasonConfigInFile(text[1:])
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return "", reasonNoObject()
	}
	if reason := foreign(object, settings); reason != "" {
		return "", reason
	}

	var missing []setting
	for _, s := range settings {
		_, given := object[s.key]
		_, givenInstead := object[s.instead]
		if !given && (s.instead == "" || !givenInstead) {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return value, ""
	}
	body := strings.TrimSuffix(text, "}")
	if len(object) > 0 {
		body = strings.TrimRight(body, " \t\r\n") + ","
	}
	return body + joinSettings(missing) + "}", ""
}

// foreign says why a config is the user's own business: it loads something else, or leads to another node than
// the settings do.
func foreign(object map[string]json.RawMessage, settings []setting) string {
	for _, check := range []struct {
		key  string
		ours func(string) bool
	}{
		{"backend_name", func(v string) bool { return v == backendName }},
		{"module_path", func(v string) bool { return v == "peercache" || strings.HasPrefix(v, "peercache.") }},
	} {
		raw, ok := object[check.key]
		if !ok {
			continue
		}
		var v string
		if json.Unmarshal(raw, &v) != nil || !check.ours(v) {
			return reasonForeignBackend(check.key, string(raw))
		}
	}
	ours := slices.IndexFunc(settings, func(s setting) bool { return s.key == keyDiscovery })
	theirs, ok := object[keyDiscovery]
	switch _, viaSocket := object[keySocket]; {
	case ok && ours < 0:
		return reasonOwnNode()
	case ok && string(theirs) != settings[ours].value:
		return "runs a PeerCache node of another cluster (" + keyDiscovery + " " + string(theirs) + " in " + extraConfig.name +
			"): remove that key to join this one"
	case viaSocket && ours >= 0:
		return "uses a PeerCache node behind a socket (" + keySocket + " in " + extraConfig.name +
			"): remove that key to run the node in SGLang"
	}
	return ""
}

func joinSettings(list []setting) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = `"` + s.key + `":` + s.value
	}
	return strings.Join(parts, ",")
}
