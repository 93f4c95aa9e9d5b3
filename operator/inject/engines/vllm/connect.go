// SPDX-License-Identifier: Apache-2.0

package vllm

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
)

// newConfig is the value of --kv-transfer-config where the user gives none. It is JSON without blanks, so that it stays one word
// in an unquoted shell variable. It names no socket: the connector reads PEERCACHE_SOCKET.
func newConfig(link engines.Link) string {
	return `{"kv_connector":"` + Connector + `","kv_connector_module_path":"` + ModulePath + `","kv_role":"kv_both",` +
		`"kv_connector_extra_config":{"cpu_bytes_to_use":` + strconv.FormatInt(link.HostMemory.Value(), 10) + `}}`
}

// AllFlags implements engines.Engine.
func (Engine) AllFlags(link engines.Link) string { return TransferConfig.Name + " " + newConfig(link) }

// Connect implements engines.Engine. The flags that are visible count, also where none can be appended.
func (e Engine) Connect(args engines.Argv, delivery engines.Delivery, link engines.Link) (engines.Change, string) {
	switch {
	case link.ByPolicy:
		return engines.Change{}, ByPolicy()
	case link.Socket == "":
		return engines.Change{}, NoSocket()
	case link.HostMemoryReason != "":
		return engines.Change{}, link.HostMemoryReason
	}
	args = normal(args)
	if args.Has(OffloadingSize) {
		return engines.Change{}, Offloads(OffloadingSize.Name)
	}
	if flag := withoutPrefixCaching(args); flag != "" {
		return engines.Change{}, NoPrefixCaching(flag)
	}
	config, readable := readConfig(args)
	if !readable {
		return engines.Change{}, ConfigNotObject()
	}
	// Each data-parallel rank has a scheduler and a host pool of its own, which its tensor-parallel ranks share.
	ranks := int64(e.Ranks(args))
	change := engines.Change{Shared: ranks * link.HostMemory.Value()}
	if config == nil {
		if delivery == engines.DeliveryFlags {
			change.Add = []string{TransferConfig.Name, newConfig(link)}
		}
		return change, ""
	}
	mine := config.ours()
	switch {
	case config.Connector == "":
		return engines.Change{}, NoConnector()
	case mine == nil && config.Connector == Connector:
		return engines.Change{}, OtherModule(config.Module)
	case mine == nil:
		return engines.Change{}, OtherConnector(config.Connector)
	}
	change.OwnSize = true
	if bytes := mine.bytes(); bytes > 0 {
		change.Shared = ranks * bytes
	}
	return change, ""
}

// namedConnector matches the choice of a KV connector in a script.
var namedConnector = regexp.MustCompile(`\bkv_connector["'=:,\\\s]+([A-Za-z0-9_]+)`)

// Shown implements engines.Engine.
func (Engine) Shown(args engines.Argv) (note string, shown bool) {
	// What the command line shows as flags, Connect has decided.
	if config, readable := readConfig(normal(args)); readable && config != nil && config.ours() != nil {
		return "", true
	}
	text := strings.Join(args.Words, "\n")
	for _, flag := range []string{OffloadingSize.Name, prefixCaching[1].Name, prefixCaching[2].Name} {
		if strings.Contains(strings.ReplaceAll(text, "_", "-"), flag) {
			return NoteInScript(flag), true
		}
	}
	other := ""
	for _, match := range namedConnector.FindAllStringSubmatch(text, -1) {
		switch match[1] {
		case Connector:
			return "", true
		case multiConnector:
		default:
			other = match[1]
		}
	}
	if other != "" {
		return NoteOtherConnector(other), true
	}
	return "", false
}
