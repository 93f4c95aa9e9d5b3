// SPDX-License-Identifier: Apache-2.0

package vllm

import "strconv"

// ByPolicy is the reason where an admission policy connects the pods.
func ByPolicy() string {
	return "runs vLLM, which the cluster's admission policy does not connect (spec.injection.by: AdmissionPolicy): write " +
		"injection.by: Webhook in the cluster"
}

// NoSocket is the reason where the node would run in the process of the engine.
func NoSocket() string {
	return "runs vLLM, and members run inside SGLang processes only (spec.injection.mode: Embedded): write injection.mode: Node or " +
		"Sidecar in the cluster"
}

// Offloads is the reason where vLLM makes a connector of its own.
func Offloads(flag string) string {
	return "uses " + flag + ", from which vLLM makes a KV connector of its own in place of PeerCache's: remove that flag"
}

// NoPrefixCaching is the reason where vLLM looks no KV up.
func NoPrefixCaching(flag string) string {
	return "uses " + flag + ", with which vLLM never looks up the KV of a prompt: remove that flag"
}

// ConfigNotObject is the reason where the value of --kv-transfer-config cannot be read.
func ConfigNotObject() string {
	return "gives " + TransferConfig.Name + " a value that is not a JSON object of vLLM's fields: write {\"kv_connector\":\"...\",...}, " +
		"or remove the flag"
}

// NoConnector is the reason where --kv-transfer-config names no connector.
func NoConnector() string {
	return "gives " + TransferConfig.Name + " without kv_connector: remove the flag, or name " + Connector + " and " +
		"kv_connector_module_path " + ModulePath + " there"
}

// OtherModule is the reason where the connector has PeerCache's name and comes from elsewhere.
func OtherModule(module string) string {
	return "loads kv_connector " + Connector + " from kv_connector_module_path " + strconv.Quote(module) + " (" + TransferConfig.Name +
		"): write " + ModulePath + " there, or remove the flag"
}

// OtherConnector is the reason where the user chose another KV connector.
func OtherConnector(connector string) string {
	fix := "list both in vLLM's MultiConnector"
	if connector == multiConnector {
		fix = "add PeerCache's to its connectors"
	}
	return "uses another KV connector (kv_connector " + strconv.Quote(connector) + " in " + TransferConfig.Name + "): remove the flag, or " + fix +
		", as kv_connector " + Connector + " with kv_connector_module_path " + ModulePath
}

// NoteOtherConnector is the note where a script names another KV connector.
func NoteOtherConnector(connector string) string {
	return "names kv_connector " + connector + " in its script, which is not PeerCache's: remove it there, or the label of the pod"
}

// NoteInScript is the note where a script has a flag with which vLLM does not use PeerCache.
func NoteInScript(flag string) string {
	return "has " + flag + " in its script, with which vLLM does not use PeerCache: remove it there, or the label of the pod"
}
