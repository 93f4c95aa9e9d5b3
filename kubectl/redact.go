// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"regexp"
	"slices"
	"strings"
)

// redacted replaces everything that may be a secret.
const redacted = "REDACTED"

// publicEnv are the variables whose values the operator writes. Values of all other variables are redacted.
var publicEnv = []string{
	"NODE_NAME", "POD_IP", "POD_NAMESPACE",
	"PEERCACHE_NODE_ID", "PEERCACHE_GROUP", "PEERCACHE_ADVERTISE_ADDR", "PEERCACHE_SOCKET", "PEERCACHE_POOL_SIZE",
	"PEERCACHE_HUGE_PAGES", "PEERCACHE_TRANSPORT", "PEERCACHE_DEVICE_NAME", "PEERCACHE_NUMA_NODE", "PEERCACHE_LOG_LEVEL",
	"PEERCACHE_DATAPLANE_IMAGE", "PEERCACHE_CLIENT_IMAGE",
}

// publicAnnotations are the prefixes of annotations that are kept.
var publicAnnotations = []string{
	"peercache.io/", "k8s.v1.cni.cncf.io/", "deployment.kubernetes.io/", "deprecated.daemonset.template.generation",
}

// redactObject redacts an object in the form of JSON in Go: values of variables and headers, annotations of others,
// options of volumes, and secrets in texts. kubectl's last applied configuration is one of those annotations.
func redactObject(object map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	redactMap(object)
}

func redactMap(object map[string]any) {
	for key, value := range object {
		switch key {
		case "env", "httpHeaders":
			redactValues(value)
		case "annotations":
			redactAnnotations(value)
		case "volumeAttributes", "options":
			redactAll(value)
		case "args", "command":
			redactArguments(value)
		default:
			object[key] = redactAny(value)
		}
	}
}

func redactAny(value any) any {
	switch v := value.(type) {
	case map[string]any:
		redactMap(v)
	case []any:
		for i := range v {
			v[i] = redactAny(v[i])
		}
	case string:
		return redactText(v)
	}
	return value
}

// redactValues redacts the values in a list of {name, value}.
func redactValues(list any) {
	entries, _ := list.([]any)
	for _, entry := range entries {
		pair, _ := entry.(map[string]any)
		name, _ := pair["name"].(string)
		if _, has := pair["value"]; has && !slices.Contains(publicEnv, name) {
			pair["value"] = redacted
		}
	}
}

func redactAnnotations(value any) {
	annotations, _ := value.(map[string]any)
	for key, text := range annotations {
		public := slices.ContainsFunc(publicAnnotations, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if s, ok := text.(string); ok && public {
			annotations[key] = redactText(s)
		} else {
			annotations[key] = redacted
		}
	}
}

func redactAll(value any) {
	attributes, _ := value.(map[string]any)
	for key := range attributes {
		attributes[key] = redacted
	}
}

// redactArguments also redacts a secret that is an argument of its own: --token abc.
func redactArguments(value any) {
	arguments, _ := value.([]any)
	after := false
	for i, argument := range arguments {
		text, _ := argument.(string)
		switch {
		case after:
			arguments[i], after = redacted, false
		case strings.HasPrefix(text, "-") && !strings.Contains(text, "=") && isSecretName(text):
			after = true
		default:
			arguments[i] = redactText(text)
		}
	}
}

var (
	privateKeys = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	credentials = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}`)
	headers     = regexp.MustCompile(`(?i)\b(authorization"?\s*[:=]\s*)("[^"]*"|[^\n"',;]+)`)
	userInfo    = regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@`)
	webTokens   = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)
	// By the beginnings that Hugging Face, GitHub, GitLab, AWS, Google, Slack, NVIDIA and OpenAI give them.
	knownTokens = regexp.MustCompile(`\b(hf_|gh[opsur]_|github_pat_|glpat-|A(KIA|SIA)[A-Z0-9]{12}|AIza|xox[a-z]-|nvapi-|sk-)[A-Za-z0-9_-]{4,}`)
	assignments = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)("?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s"',;&]+)`)
	secretNames = regexp.MustCompile(`(?i)passw|secret|token|credential|api[-_]?key|private[-_]?key|signature|(^|[._-])(sig|auth)$`)
)

// redactText redacts what looks like a secret in a log, a file or an argument.
func redactText(text string) string {
	text = privateKeys.ReplaceAllString(text, redacted)
	text = credentials.ReplaceAllString(text, "$1 "+redacted)
	text = headers.ReplaceAllString(text, "${1}"+redacted)
	text = userInfo.ReplaceAllString(text, "://"+redacted+"@")
	text = webTokens.ReplaceAllString(text, redacted)
	text = knownTokens.ReplaceAllString(text, redacted)
	return assignments.ReplaceAllStringFunc(text, func(found string) string {
		parts := assignments.FindStringSubmatch(found)
		if isSecretName(parts[1]) {
			return parts[1] + parts[2] + redacted
		}
		return found
	})
}

// isSecretName is true for password, and false for password-file, whose value is a path.
func isSecretName(name string) bool {
	if !secretNames.MatchString(name) {
		return false
	}
	name = strings.ToLower(name)
	return !slices.ContainsFunc([]string{"file", "path", "dir", "name", "ref"}, func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}
