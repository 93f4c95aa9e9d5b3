// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"strings"
)

const (
	backendName = "peercache"
	modulePath  = "peercache.store"
)

// setting is one key of the extra config with its value as JSON.
type setting struct{ key, value string }

// settings are the keys that the Python store needs in a pod. allocator: shm makes SGLang put its host pool
// into a memfd that the store can pass on to the node.
func settings(socket string) []setting {
	return []setting{
		{"backend_name", `"` + backendName + `"`},
		{"module_path", `"` + modulePath + `"`},
		{"class_name", `"PeerCacheStore"`},
		{"interface_v1", "1"},
		{"allocator", `"shm"`},
		// The name of a group has no character that JSON escapes: the API server checks it.
		{"socket", `"` + socket + `"`},
	}
}

// newExtraConfig is the value for a user who gives none: JSON without blanks, so that it stays one word in
// an unquoted shell variable.
func newExtraConfig(socket string) string {
	return "{" + joinSettings(settings(socket)) + "}"
}

// mergeExtraConfig adds the keys that are missing in the user's value, or says why the value is left alone.
// It works on the text, so that everything that the user wrote stays as it was written.
func mergeExtraConfig(value, socket string) (merged, reason string) {
	text := strings.TrimSpace(value)
	var object map[string]json.RawMessage
	if strings.HasPrefix(text, "@") {
		return "", "reads " + extraConfig.name + " from the file " + text[1:] +
			", which cannot be completed here: write it inline as JSON, or remove the flag"
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return "", "gives " + extraConfig.name + " a value that is not a JSON object: write {\"key\":value,...}"
	}
	if reason := foreign(object); reason != "" {
		return "", reason
	}

	var missing []setting
	for _, s := range settings(socket) {
		if _, ok := object[s.key]; !ok {
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

// foreign says why a config is the user's own business: it loads something else, or a node that runs
// inside SGLang and so needs no socket.
func foreign(object map[string]json.RawMessage) string {
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
			return "loads a backend of the user's own (" + check.key + " " + string(raw) + " in " + extraConfig.name + ")"
		}
	}
	if _, ok := object["discovery_addr"]; ok {
		return "runs a PeerCache node of its own (discovery_addr in " + extraConfig.name +
			"): remove that key to use the machine's node"
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
