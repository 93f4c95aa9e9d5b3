// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"
)

// repairs counts how often the operator repairs an object within a time, when somebody else changes it whenever it has stood
// for `after`, and returns the longest time for which it was not as it should be.
func repairs(after, within time.Duration) (count int, wrong time.Duration) {
	var object record
	for now := noon; now.Before(noon.Add(within)); {
		wait := object.repairIn(now)
		wrong = max(wrong, wait)
		if wait == 0 {
			object.repairedAt(now)
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
		after  time.Duration // somebody changes the object after a repair
		count  int           // in an hour
		longer time.Duration // at most is it wrong
	}{
		{"at once", 0, 17, repairAtLeast},
		{"after 4 s", 4 * time.Second, 17, repairAtLeast},
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

// Who has stopped is forgotten: the next repair is made at once, and the one after it soon.
func TestRepairsBeginAnew(t *testing.T) {
	var object record
	now := noon
	for range 20 {
		now = now.Add(object.repairIn(now))
		object.repairedAt(now)
	}
	if object.wait != repairAtLeast {
		t.Fatalf("after 20 repairs the next waits %s", object.wait)
	}
	now = now.Add(2 * repairAtLeast)
	if wait := object.repairIn(now); wait != 0 {
		t.Errorf("the object stood for long, but its repair waits %s", wait)
	}
	if wait := object.repairIn(now); wait != 0 {
		t.Errorf("the repair was not made, for an error, and is tried again in %s", wait)
	}
	object.repairedAt(now)
	if wait := object.repairIn(now); wait != repairAgain {
		t.Errorf("and the next waits %s", wait)
	}
}

func TestNoteOfWhatTheServerAlters(t *testing.T) {
	want := parse(t, `{"spec":{"a":1,"gone":{"x":1},"env":[{"name":"A","value":"1"},{"name":"B"}]}}`)
	stored := parse(t, `{"spec":{"a":2,"more":3,"env":[{"name":"Z"},{"name":"A","value":"2","by":"webhook"}]}}`)
	all := records{}
	if altered := all.of("x").note("h1", want, stored); altered.String() != "spec.a 1 -> 2" {
		t.Errorf("told is %q", altered)
	}
	if altered := all.of("x").note("h1", want, stored); altered.path != "" {
		t.Errorf("told again is %q", altered)
	}
	if found := drift(all.expected("x", "h1", want), stored); found.path != "" {
		t.Errorf("what the API server made of it counts as changed by others, at %s", found.path)
	}
	changed := parse(t, `{"spec":{"a":3,"env":[{"name":"A","value":"2"}]}}`)
	if found := drift(all.expected("x", "h1", want), changed); found.path != "spec.a" {
		t.Errorf("what somebody else changes is found at %q", found.path)
	}
	for _, other := range []struct{ name, hash string }{{"x", "h2"}, {"y", "h1"}} {
		if found := drift(all.expected(other.name, other.hash, want), stored); found.path != "spec.a" {
			t.Errorf("%+v is taken for an object that it is not: %q", other, found.path)
		}
	}
	all.of("x").note("h2", want, want)
	if found := drift(all.expected("x", "h1", want), stored); found.path != "spec.a" {
		t.Error("an object that is stored as it is applied is remembered as another")
	}
}
