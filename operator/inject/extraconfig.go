// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/inject/sglang"
)

// mergeExtraConfig adds the missing keys to the user's value, or returns a reason. It edits the text, so that the user's
// keys stay as they are written.
func mergeExtraConfig(value string, settings []sglang.Setting) (merged, reason string) {
	text := strings.TrimSpace(value)
	var object map[string]json.RawMessage
	if strings.HasPrefix(text, "@") {
		return "", reasons.ConfigInFile(text[1:])
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return "", reasons.ConfigNotObject()
	}
	if reason := ownConfigReason(object, settings); reason != "" {
		return "", reason
	}

	var missing []sglang.Setting
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
	return body + sglang.JoinSettings(missing) + "}", ""
}

// ownConfigReason returns why a config is not extended: it loads another backend, or uses another node than the
// settings.
func ownConfigReason(object map[string]json.RawMessage, settings []sglang.Setting) string {
	for _, check := range []struct {
		key  string
		ours func(string) bool
	}{
		{"backend_name", func(v string) bool { return v == sglang.BackendName }},
		{"module_path", func(v string) bool { return v == "peercache" || strings.HasPrefix(v, "peercache.") }},
	} {
		raw, ok := object[check.key]
		if !ok {
			continue
		}
		var v string
		if json.Unmarshal(raw, &v) != nil || !check.ours(v) {
			return reasons.ConfigOtherBackend(check.key, string(raw))
		}
	}
	ours := slices.IndexFunc(settings, func(s sglang.Setting) bool { return s.Key == sglang.KeyDiscovery })
	theirs, ok := object[sglang.KeyDiscovery]
	switch _, viaSocket := object[sglang.KeySocket]; {
	case ok && ours < 0:
		return reasons.ConfigOwnNode()
	case ok && string(theirs) != settings[ours].Value:
		return "runs a PeerCache node of another cluster (" + sglang.KeyDiscovery + " " + string(theirs) + " in " + sglang.ExtraConfig.Name +
			"): remove that key to join this one"
	case viaSocket && ours >= 0:
		return "uses a PeerCache node behind a socket (" + sglang.KeySocket + " in " + sglang.ExtraConfig.Name +
			"): remove that key to run the node in SGLang"
	}
	return ""
}
