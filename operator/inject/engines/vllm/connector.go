// SPDX-License-Identifier: Apache-2.0

package vllm

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
)

// The connector of the Python package.
const (
	Connector  = "PeerCacheConnector"
	ModulePath = "peercache.vllm"
)

// multiConnector is vLLM's connector of several.
const multiConnector = "MultiConnector"

// transferConfig is the part of the value of --kv-transfer-config that injection reads.
type transferConfig struct {
	Connector string `json:"kv_connector"`
	Module    string `json:"kv_connector_module_path"`
	Extra     extra  `json:"kv_connector_extra_config"`
}

type extra struct {
	Bytes      json.Number      `json:"cpu_bytes_to_use"`
	Connectors []transferConfig `json:"connectors"`
}

// ours returns the part that names PeerCache's connector: the config itself, or one of a MultiConnector. It is nil where none does.
func (c *transferConfig) ours() *transferConfig {
	if c.Connector == Connector && strings.HasPrefix(c.Module+".", "peercache.") {
		return c
	}
	if c.Connector != multiConnector {
		return nil
	}
	for i := range c.Extra.Connectors {
		if inner := &c.Extra.Connectors[i]; inner.Connector != multiConnector && inner.ours() != nil {
			return inner
		}
	}
	return nil
}

// bytes is the size of the host pool, 0 where the config gives none.
func (c *transferConfig) bytes() int64 {
	n, err := c.Extra.Bytes.Float64()
	if err != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return int64(n)
}

// readConfig returns what the arguments say about the KV connector; nil where they say nothing. It is not readable where the
// value is no JSON object with the fields of vLLM.
func readConfig(args engines.Argv) (config *transferConfig, readable bool) {
	if dotted := readDotted(args); dotted != nil {
		text, err := json.Marshal(dotted)
		if err != nil {
			return nil, false
		}
		return parseConfig(string(text))
	}
	use := args.Last(TransferConfig)
	if !use.Given {
		return nil, true
	}
	return parseConfig(use.Value)
}

func parseConfig(value string) (*transferConfig, bool) {
	var object map[string]json.RawMessage
	text := []byte(expandNumbers(value))
	if json.Unmarshal(text, &object) != nil || object == nil {
		return nil, false
	}
	config := &transferConfig{}
	if err := json.Unmarshal(text, config); err != nil {
		return nil, false
	}
	return config, true
}

// readDotted gathers the dotted flags; nil where there are none. A value is JSON, or else a text.
func readDotted(args engines.Argv) map[string]any {
	var all map[string]any
	for i := args.Start; i < len(args.Words); i++ {
		word, value, inline := strings.Cut(args.Words[i], "=")
		name, path, dotted := strings.Cut(word, ".")
		if !dotted || !TransferConfig.Matches(name) {
			continue
		}
		if !inline && i+1 < len(args.Words) {
			i++
			value = args.Words[i]
		}
		if all == nil {
			all = map[string]any{}
		}
		set(all, strings.Split(strings.TrimSuffix(path, "+"), "."), dottedValue(value, strings.HasSuffix(path, "+")))
	}
	return all
}

func dottedValue(value string, list bool) any {
	if list {
		return strings.Split(value, ",")
	}
	var parsed any
	if json.Unmarshal([]byte(expandNumbers(value)), &parsed) != nil {
		return value
	}
	return parsed
}

// set puts a value into nested objects.
func set(object map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		inner, ok := object[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[key] = inner
		}
		object = inner
	}
	object[path[len(path)-1]] = value
}

var (
	quoted      = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	shortNumber = regexp.MustCompile(`\b([0-9]+(?:\.[0-9]+)?)([kKmMgGtT])\b`)
	units       = map[string]float64{
		"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
	}
)

// expandNumbers replaces numbers such as 80g outside of strings, which vLLM takes in JSON, too: small letters are powers of 1000,
// capital ones of 1024.
func expandNumbers(text string) string {
	var b strings.Builder
	expand := func(part string) {
		b.WriteString(shortNumber.ReplaceAllStringFunc(part, func(number string) string {
			n, err := strconv.ParseFloat(number[:len(number)-1], 64)
			if err != nil {
				return number
			}
			return strconv.FormatFloat(n*units[number[len(number)-1:]], 'f', 0, 64)
		}))
	}
	at := 0
	for _, span := range quoted.FindAllStringIndex(text, -1) {
		expand(text[at:span[0]])
		b.WriteString(text[span[0]:span[1]])
		at = span[1]
	}
	expand(text[at:])
	return b.String()
}
