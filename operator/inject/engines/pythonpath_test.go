// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"strings"
	"testing"
)

func TestPythonPathIsIgnored(t *testing.T) {
	for words, want := range map[string]bool{
		"python3 -I -m sglang.launch_server":                       true,
		"python -E -m sglang.launch_server":                        true,
		"/usr/bin/python3.12 -u -sE -m sglang.launch_server":       true,
		"numactl -N 0 python3 -Iu /app/launch_server.py":           true,
		"python3 -m sglang.launch_server --model-path /m":          false,
		"python3 -m sglang.launch_server -I":                       false,
		"python3 -u -m sglang.launch_server":                       false,
		"ipython -I -m sglang.launch_server":                       false,
		"python3 -WIgnore -m sglang.launch_server":                 false,
		"sh|-c|cd /app && exec python3 -I -m sglang.launch_server": true,
	} {
		separator := " "
		if strings.Contains(words, "|") {
			separator = "|"
		}
		if got, _ := PythonPath(strings.Split(words, separator)); got != want {
			t.Errorf("%s: %v", words, got)
		}
	}
}

func TestPythonPathIsReplaced(t *testing.T) {
	for script, want := range map[string]bool{
		"export PYTHONPATH=/app; exec python3 -m sglang.launch_server":            true,
		"env PYTHONPATH=/app sglang serve":                                        true,
		"PYTHONPATH= python3 -m sglang.launch_server":                             true,
		"export PYTHONPATH=/app:$PYTHONPATH; python3 -m sglang.launch_server":     false,
		`export PYTHONPATH="/app:${PYTHONPATH}"; python3 -m sglang.launch_server`: false,
		"export PYTHONPATH=/app${PYTHONPATH:+:$PYTHONPATH}; sglang serve":         false,
		"PYTHONPATH=/app:$(PYTHONPATH) sglang serve":                              false,
		"export PYTHONPATH+=:/app; sglang serve":                                  false,
		"PYTHONPATH=/opt/peercache/python:/app sglang serve":                      false,
		"MY_PYTHONPATH=/app sglang serve":                                         false,
		"python3 -m sglang.launch_server":                                         false,
	} {
		if _, got := PythonPath([]string{"sh", "-c", script}); got != want {
			t.Errorf("%s: %v", script, got)
		}
	}
}
