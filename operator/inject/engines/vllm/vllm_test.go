// SPDX-License-Identifier: Apache-2.0

package vllm

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/operator/inject/engines"
)

func TestLaunch(t *testing.T) {
	for words, want := range map[string]struct {
		index   int
		started bool
	}{
		"vllm|serve|/models/qwen":                                       {1, true},
		"/opt/venv/bin/vllm|serve":                                      {1, true},
		"numactl|-N|0|vllm|serve|m":                                     {4, true},
		"python3|-m|vllm.entrypoints.openai.api_server|--model|m":       {2, true},
		"python3|-mvllm.entrypoints.openai.api_server":                  {1, true},
		"python3|/app/vllm/entrypoints/openai/api_server.py":            {1, true},
		"python3|-m|vllm.entrypoints.cli.main|serve|m":                  {3, true},
		"python3|-mvllm.entrypoints.cli.main|serve|m":                   {2, true},
		"python3|/app/vllm/entrypoints/cli/main.py|serve":               {2, true},
		"sh|-c|cd /app && exec vllm serve m":                            {-1, true},
		"sh|-c|python3 -m vllm.entrypoints.openai.api_server --model m": {-1, true},
		"vllm|bench|serve":                                              {-1, false},
		"python3|-m|vllm.entrypoints.cli.main|bench":                    {-1, false},
		"python3|-m|sglang.launch_server|--model-path|vllm":             {-1, false},
		"nginx": {-1, false},
		"":      {-1, false},
	} {
		index, started := Engine{}.Launch(strings.Split(words, "|"))
		if index != want.index || started != want.started {
			t.Errorf("%s: %d %t, want %d %t", words, index, started, want.index, want.started)
		}
		if matched := Starts.MatchString(strings.ReplaceAll(words, "|", "\n")); matched != started {
			t.Errorf("%s: a policy would see %t, want %t", words, matched, started)
		}
	}
}

func TestClaims(t *testing.T) {
	for image, want := range map[string]bool{
		"vllm/vllm-openai": true, "vllm/vllm-openai:v0.33.0": true, "r:5000/a/vllm-openai@sha256:0": true, "vllm": true, "a/vllm:1": true,
		"vllm/router:1": false, "a/myvllm:1": false, "vllm-openai-proxy": false, "vllm:5000/nginx": false, "": false,
	} {
		if got := (Engine{}).Claims(&corev1.Container{Name: "main", Image: image}); got != want {
			t.Errorf("%s: %t, want %t", image, got, want)
		}
	}
	if (Engine{}).Claims(&corev1.Container{Image: "vllm/vllm-openai", Command: []string{"python3", "router.py"}}) {
		t.Error("another program of the image counts as vLLM")
	}
	if !(Engine{}).Claims(&corev1.Container{Name: "vllm", Command: []string{"/start"}}) {
		t.Error("a container named vllm does not count")
	}
}

const (
	own   = `{"kv_connector":"PeerCacheConnector","kv_connector_module_path":"peercache.vllm"}`
	other = `{"kv_connector":"NixlConnector","kv_role":"kv_both"}`
	multi = `{"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":[` + other + `,` + own + `]}}`
)

// TestConnect has the spellings that vLLM's parser was run on.
func TestConnect(t *testing.T) {
	added, left := "adds", ""
	for arguments, want := range map[string]string{ // what is added, left as it is, or the reason
		"m":                               added,
		"m|--kv-transfer-config|" + own:   left,
		"m|--kv_transfer_config|" + own:   left,
		"m|--kv-transfer_config=" + own:   left,
		"m|--kv-t|" + own:                 left,
		"m|--kv-transfer-config|" + multi: left,
		"m|--kv-transfer-config|" + other: `"NixlConnector"`,
		"m|--kv-transfer-config|" + own + "|--kv-transfer-config=" + other:                                     `"NixlConnector"`,
		"m|--kv-transfer-config|" + other + "|--kv-transfer-config=" + own:                                     left,
		"m|--kv-transfer-config|{}":                                                                            "without kv_connector",
		`m|--kv-transfer-config|{"kv_connector":null}`:                                                         "without kv_connector",
		`m|--kv-transfer-config|{"kv_connector":"PeerCacheConnector","kv_connector_module_path":"a"}`:          `kv_connector_module_path "a"`,
		`m|--kv-transfer-config|{"kv_connector":"PeerCacheConnector","kv_connector_module_path":"peercache2"}`: `"peercache2"`,
		`m|--kv-transfer-config|{"kv_connector":1}`:                                                            "not a JSON object",
		"m|--kv-transfer-config|$(CONFIG)":                                                                     "not a JSON object",
		"m|--kv-transfer-config|[]":                                                                            "not a JSON object",
		"m|--kv-transfer-config":                                                                               "not a JSON object",
		// Dotted flags replace the plain one, wherever it stands.
		"m|--kv-transfer-config.kv_connector|X|--kv-transfer-config|" + own:                                     `"X"`,
		"m|--kv_transfer_config.kv_connector=PeerCacheConnector|--kv-t.kv_connector_module_path|peercache.vllm": left,
		"m|--kv-transfer-config|" + own + "|--kv-transfer-config.kv_role|kv_both":                               "without kv_connector",
		"m|--kv-transfer-config.": "without kv_connector",

		"m|--kv-offloading-size|4":                                "--kv-offloading-size",
		"m|--kv_offloading_size=4":                                "--kv-offloading-size",
		"m|--kv-offloading-s=4":                                   "--kv-offloading-size",
		"m|--kv-offloading-backend|native":                        added,
		"m|--no-enable-prefix-caching":                            "--no-enable-prefix-caching",
		"m|--no_enable_prefix_caching":                            "--no-enable-prefix-caching",
		"m|--no-enable-pre":                                       "--no-enable-prefix-caching",
		"m|--disable-prefix-caching":                              "--disable-prefix-caching",
		"m|--no-enable-prefix-caching|--enable-prefix-caching":    added,
		"m|--enable-prefix-caching|--disable-prefix-caching":      "--disable-prefix-caching",
		"m|--kv-transfer-config|" + own + "|--kv-offloading-size": "--kv-offloading-size",
	} {
		args := engines.Argv{Words: strings.Split(arguments, "|")}
		change, reason := Engine{}.Connect(args, engines.DeliveryFlags, socketLink())
		got := reason
		if reason == "" && len(change.Add) == 2 && change.Add[0] == TransferConfig.Name {
			got = added
		}
		if want == left && got != left || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
		again, _ := Engine{}.Connect(engines.Argv{Words: append(args.Words, change.Add...)}, engines.DeliveryFlags, socketLink())
		if reason == "" && len(again.Add) > 0 {
			t.Errorf("%s: flags are added twice", arguments)
		}
	}
}

func socketLink() engines.Link {
	return engines.Link{Socket: "/run/peercache/default.sock", HostMemory: resource.MustParse("4Gi")}
}

func TestShared(t *testing.T) {
	for arguments, want := range map[string]int64{
		"m":                             4 << 30,
		"m|--data-parallel-size|2":      8 << 30,
		"m|--kv-transfer-config|" + own: 4 << 30,
		"m|--kv-t.kv_connector=PeerCacheConnector|--kv-t.kv_connector_module_path=peercache.vllm|--kv-t.kv_connector_extra_config.cpu_bytes_to_use=2g":          2e9,
		"m|-dp=2|--kv-transfer-config|" + strings.Replace(multi, `peercache.vllm"`, `peercache.vllm","kv_connector_extra_config":{"cpu_bytes_to_use":1.5g}`, 1): 2 * 1500000000,
	} {
		change, reason := Engine{}.Connect(engines.Argv{Words: strings.Split(arguments, "|")}, engines.DeliveryFlags, socketLink())
		if reason != "" || change.Shared != want {
			t.Errorf("%s: %d bytes, want %d (%s)", arguments, change.Shared, want, reason)
		}
	}
}

func TestLinks(t *testing.T) {
	for want, link := range map[string]engines.Link{
		"injection.by: Webhook":           {Socket: "x", ByPolicy: true},
		"injection.mode: Node or Sidecar": {},
		"bad":                             {Socket: "x", HostMemoryReason: "bad"},
	} {
		if _, reason := (Engine{}).Connect(engines.Argv{}, engines.DeliveryFlags, link); !strings.Contains(reason, want) {
			t.Errorf("%q, want %q", reason, want)
		}
	}
}

func TestShown(t *testing.T) {
	for script, want := range map[string]struct {
		note  string
		shown bool
	}{
		"exec vllm serve m": {"", false},
		`vllm serve m --kv-transfer-config '{"kv_connector":"PeerCacheConnector","kv_connector_module_path":"peercache.vllm"}'`: {"", true},
		`vllm serve m --kv-transfer-config '{"kv_connector": "LMCacheConnectorV1"}'`:                                            {"LMCacheConnectorV1", true},
		"vllm serve m --kv-transfer-config.kv_connector=X":                                                                      {"kv_connector X", true},
		"vllm serve m --kv_offloading_size 4":                                                                                   {"--kv-offloading-size", true},
		"vllm serve m --no-enable-prefix-caching":                                                                               {"--no-enable-prefix-caching", true},
	} {
		note, shown := Engine{}.Shown(engines.Argv{Words: []string{"sh", "-c", script}})
		if shown != want.shown || !strings.Contains(note, want.note) || (note == "") != (want.note == "") {
			t.Errorf("%s: %q %t", script, note, shown)
		}
	}
}

func TestRanks(t *testing.T) {
	for arguments, want := range map[string]int{
		"m":                          1,
		"m --tensor-parallel-size 8": 1,
		"m --data-parallel-size 4":   4,
		"m --data_parallel_size=4":   4,
		"m -dp 4":                    4,
		"m --data-parallel-size 8 --data-parallel-size-local 2": 2,
		"m -dp 8 -dpl 4":                                         4,
		"m --data-parallel-size 8 --nnodes 2":                    4,
		"m --data-parallel-size 8 --data-parallel-rank 3":        1,
		"m --data-parallel-size 8 --data-parallel-external-lb":   1,
		"m --data-parallel-size $(DP)":                           1,
		"m --data-parallel-size 0":                               1,
		"m --data-parallel-size 2 --data-parallel-backend mp":    2,
		"m --data-parallel-size 4 --data-parallel-start-rank 2 ": 4,
	} {
		if got := (Engine{}).Ranks(engines.Argv{Words: strings.Fields(arguments)}); got != want {
			t.Errorf("%s: %d ranks, want %d", arguments, got, want)
		}
	}
}
