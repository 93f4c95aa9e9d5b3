// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestAuditLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log := newAuditLog(file)
	read := func() tally {
		t.Helper()
		counts, err := log.read()
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	write := func(text string) {
		t.Helper()
		out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if counts := read(); counts.sum() != 0 {
		t.Errorf("before there is a log: %v", counts)
	}
	write(`{"verb":"patch","objectRef":{"resource":"peercacheclusters","subresource":"status"}}
{"verb":"get","requestURI":"/api"}
{"verb":"update","objectRef":{"resource":"leases"}}
{"verb":"patch","objectRef":{"resource":"po`)
	first := read()
	if want := (tally{{"patch", "peercacheclusters/status"}: 1}); !reflect.DeepEqual(first.writes(), want) {
		t.Errorf("writes are %v, want %v", first.writes(), want)
	}
	write("ds\"}}\n")
	added := read().since(first)
	if want := (tally{{"patch", "pods"}: 1}); !reflect.DeepEqual(added, want) {
		t.Errorf("added were %v, want %v", added, want)
	}
	write("no JSON\n")
	if _, err := log.read(); err == nil {
		t.Error("a line that cannot be read is passed over")
	}
}
