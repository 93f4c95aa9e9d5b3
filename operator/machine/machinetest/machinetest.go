// SPDX-License-Identifier: Apache-2.0

// Package machinetest writes the /sys and /proc of simulated machines.
package machinetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Unpack writes the files and links that a text such as testdata/hgx-h100.txt lists. host is the machine's number in its
// subnets. Names in sysfs have colons, which file systems of other platforms, and Go modules, do not.
func Unpack(t *testing.T, list, root string, host byte) {
	t.Helper()
	text, err := os.ReadFile(list) //nolint:gosec // the test names the file
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "{host}", fmt.Sprintf("%02x", host)), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := write(root, line); err != nil {
			t.Fatalf("%s: %q: %v", list, line, err)
		}
	}
}

func write(root, line string) error {
	if link, target, found := strings.Cut(line, " -> "); found {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o750); err != nil {
			return err
		}
		return os.Symlink(target, filepath.Join(root, link))
	}
	name, content, _ := strings.Cut(line, " = ")
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // below root
	if err != nil {
		return err
	}
	if _, err := out.WriteString(content + "\n"); err != nil {
		return err
	}
	return out.Close()
}
