// SPDX-License-Identifier: Apache-2.0

package sglang

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
)

// MergeExtraConfig adds the missing keys to the user's value, or returns a reason. It edits the text, so that the user's
// keys stay as they are written.
func MergeExtraConfig(value string, settings []engines.Setting) (merged, reason string) {
	text := strings.TrimSpace(value)
	var object map[string]json.RawMessage
	if strings.HasPrefix(text, "@") {
		return "", ConfigInFile(text[1:])
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return "", ConfigNotObject()
	}
	if reason := ownConfigReason(object, settings); reason != "" {
		return "", reason
	}

	var missing []engines.Setting
	for _, s := range settings {
		_, given := object[s.Key]
		_, givenInstead := object[s.Instead]
		if !given && (s.Instead == "" || !givenInstead) {
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
	return body + JoinSettings(missing) + "}", ""
}

// ownConfigReason returns why a config is not extended: it loads another backend, or uses another node than the
// settings.
func ownConfigReason(object map[string]json.RawMessage, settings []engines.Setting) string {
	for _, check := range []struct {
		key  string
		ours func(string) bool
	}{
		{"backend_name", func(v string) bool { return v == BackendName }},
		{"module_path", func(v string) bool { return v == "peercache" || strings.HasPrefix(v, "peercache.") }},
	} {
		raw, ok := object[check.key]
		if !ok {
			continue
		}
		var v string
		if json.Unmarshal(raw, &v) != nil || !check.ours(v) {
			return ConfigOtherBackend(check.key, string(raw))
		}
	}
	ours := slices.IndexFunc(settings, func(s engines.Setting) bool { return s.Key == KeyDiscovery })
	theirs, ok := object[KeyDiscovery]
	switch _, viaSocket := object[KeySocket]; {
	case ok && ours < 0:
		return ConfigOwnNode()
	case ok && string(theirs) != settings[ours].Value:
		return "runs a PeerCache node of another cluster (" + KeyDiscovery + " " + string(theirs) + " in " + ExtraConfig.Name +
			"): remove that key to join this one"
	case viaSocket && ours >= 0:
		return "uses a PeerCache node behind a socket (" + KeySocket + " in " + ExtraConfig.Name +
			"): remove that key to run the node in SGLang"
	}
	return ""
}
