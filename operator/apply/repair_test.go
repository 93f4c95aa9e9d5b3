// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/peercache/peercache/operator/drift"
	"github.com/peercache/peercache/operator/podtest"
)

// repairs changes an object again this long after each repair. It returns the number of repairs within a time, and the longest
// time for which the object was wrong.
func repairs(after, within time.Duration) (count int, wrong time.Duration) {
	var object record
	for now := podtest.Noon; now.Before(podtest.Noon.Add(within)); {
		wait := object.repairDelay(now)
		wrong = max(wrong, wait)
		if wait == 0 {
			object.noteRepair(now)
			count++
			wait = after
		}
		now = now.Add(max(wait, time.Second))
	}
	return count, wrong
}

func TestRepairsBecomeRare(t *testing.T) {
	tests := []struct {
		name   string
		after  time.Duration // time from a repair to the next change
		count  int           // repairs in an hour
		longer time.Duration // the object is wrong for at most this time
	}{
		{"at once", 0, 17, MaxRepairDelay},
		{"after 4 s", 4 * time.Second, 17, MaxRepairDelay},
		{"after a minute", time.Minute, 60, 0},
		{"once", 2 * time.Hour, 1, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			count, wrong := repairs(test.after, time.Hour)
			if count != test.count || wrong > test.longer {
				t.Errorf("%d repairs in an hour, want %d; wrong for %s, want at most %s", count, test.count, wrong, test.longer)
			}
		})
	}
}

// TestRepairDelayResets: after a quiet time, the next repair is immediate, and the one after it is early.
func TestRepairDelayResets(t *testing.T) {
	var object record
	now := podtest.Noon
	for range 20 {
		now = now.Add(object.repairDelay(now))
		object.noteRepair(now)
	}
	if object.wait != MaxRepairDelay {
		t.Fatalf("after 20 repairs the next waits %s", object.wait)
	}
	now = now.Add(2 * MaxRepairDelay)
	if wait := object.repairDelay(now); wait != 0 {
		t.Errorf("the object stood for long, but its repair waits %s", wait)
	}
	if wait := object.repairDelay(now); wait != 0 {
		t.Errorf("the repair was not made, for an error, and is tried again in %s", wait)
	}
	object.noteRepair(now)
	if wait := object.repairDelay(now); wait != minRepairDelay {
		t.Errorf("and the next waits %s", wait)
	}
}

func TestNoteStored(t *testing.T) {
	want := parse(t, `{"spec":{"a":1,"gone":{"x":1},"env":[{"name":"A","value":"1"},{"name":"B"}]}}`)
	stored := parse(t, `{"spec":{"a":2,"more":3,"env":[{"name":"Z"},{"name":"A","value":"2","by":"webhook"}]}}`)
	all := records{}
	if altered := all.of("x").noteStored("h1", want, stored); altered.String() != "spec.a 1 -> 2" {
		t.Errorf("told is %q", altered)
	}
	if altered := all.of("x").noteStored("h1", want, stored); altered.Path != "" {
		t.Errorf("told again is %q", altered)
	}
	if found := drift.Find(all.expected("x", "h1", want), stored); found.Path != "" {
		t.Errorf("what the API server made of it counts as changed by others, at %s", found.Path)
	}
	changed := parse(t, `{"spec":{"a":3,"env":[{"name":"A","value":"2"}]}}`)
	if found := drift.Find(all.expected("x", "h1", want), changed); found.Path != "spec.a" {
		t.Errorf("what somebody else changes is found at %q", found.Path)
	}
	for _, other := range []struct{ name, hash string }{{"x", "h2"}, {"y", "h1"}} {
		if found := drift.Find(all.expected(other.name, other.hash, want), stored); found.Path != "spec.a" {
			t.Errorf("%+v is taken for an object that it is not: %q", other, found.Path)
		}
	}
	all.of("x").noteStored("h2", want, want)
	if found := drift.Find(all.expected("x", "h1", want), stored); found.Path != "spec.a" {
		t.Error("an object that is stored as it is applied is remembered as another")
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
