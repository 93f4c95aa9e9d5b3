// SPDX-License-Identifier: Apache-2.0

// Package vllm describes vLLM's command line: which words start vLLM, its flags, and the KV connector that connects it with
// PeerCache. Its functions are pure.
//
// What it says of vLLM was read in release 0.33 (modules utils.argparse_utils, engine.arg_utils and entrypoints.cli). Its parser was
// run on the spellings below:
//   - FlexibleArgumentParser turns the underscores of a flag's name into dashes, up to the first dot.
//   - argparse takes every abbreviation that fits one flag only: --kv-t is --kv-transfer-config.
//   - The last of two equal flags counts, also of --enable-prefix-caching and its opposites.
//   - Dotted flags (--kv-transfer-config.kv_connector X) are gathered into one JSON object behind all other arguments. So it
//     replaces the value of a plain --kv-transfer-config wherever that stands, and is not merged with it.
//   - --config FILE is read only as two words. Its flags come before those of the command line, which therefore win.
package vllm

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
)

// Container is the name of a container that counts as vLLM whatever its command.
const Container = "vllm"

var (
	// Starts matches a start of vLLM in words that are joined by line ends, and in a script among them.
	Starts = regexp.MustCompile(`\bvllm\s+serve\b|(\b|-m)vllm[./]entrypoints[./](openai[./]api_server|cli[./]main(\.py)?\s+serve)\b`)
	// Image matches the official image and copies of it. Its entry point is `vllm serve`.
	Image = regexp.MustCompile(`(^|/)vllm(-openai)?([:@][^/]*)?$`)

	launchProgram = regexp.MustCompile(`(^|/)vllm$`)
	launchServer  = regexp.MustCompile(`(^|/)vllm/entrypoints/openai/api_server\.py$`)
	launchMain    = regexp.MustCompile(`(^|/)vllm/entrypoints/cli/main\.py$`)
)

// Engine is vLLM.
type Engine struct{}

// About implements engines.Engine.
func (Engine) About() engines.About {
	return engines.About{Name: "vLLM", ID: "vllm", Variable: names.EnvVLLMFlags, Other: "KV connector"}
}

// Launch implements engines.Engine.
func (Engine) Launch(words []string) (index int, started bool) {
	// Reviews may hold very many containers: the expressions see only those that may match.
	if !slices.ContainsFunc(words, mentioned) {
		return -1, false
	}
	for i, word := range words {
		module := strings.TrimPrefix(word, "-m")
		isModule := module != word || i > 0 && words[i-1] == "-m"
		served := i+1 < len(words) && words[i+1] == "serve"
		switch {
		case isModule && module == "vllm.entrypoints.openai.api_server", launchServer.MatchString(word):
			return i, true
		case served && (launchProgram.MatchString(word) || launchMain.MatchString(word) || isModule && module == "vllm.entrypoints.cli.main"):
			return i + 1, true
		}
	}
	return -1, Starts.MatchString(strings.Join(words, "\n"))
}

func mentioned(text string) bool { return strings.Contains(text, "vllm") }

// Claims implements engines.Engine. An image counts only where its entry point runs: with a command it may do something else.
func (Engine) Claims(c *corev1.Container) bool {
	return c.Name == Container || len(c.Command) == 0 && mentioned(c.Image) && Image.MatchString(c.Image)
}

// TakesArguments implements engines.Engine. The entry point takes flags, or the name of a model before them. Arguments must
// exist: new ones would replace the default arguments of an image.
func (Engine) TakesArguments(args engines.Argv) bool {
	return len(args.Words) > 0 && args.Words[0] != "" && !strings.ContainsAny(args.Words[0], " \t\r\n")
}

// Notes implements engines.Engine.
func (Engine) Notes(engines.Argv, engines.Delivery) []string { return nil }

// Advice implements engines.Engine.
func (Engine) Advice(*corev1.Container) string { return "" }
