// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	"github.com/peercache/peercache/operator/fleet"
)

func TestFleetView(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	m := &memory{}
	if got := m.fleetView(at(0)); !got.Hold || got.Fleet != nil {
		t.Errorf("before the first answer: %+v", got)
	}
	if got := m.fleetView(at(60)); got.Hold || got.Fleet != nil {
		t.Errorf("a minute without any answer: %+v", got)
	}
	m.noteFleet(&fleet.Fleet{Members: 4}, at(61))
	m.noteFleet(nil, at(70))
	if got := m.fleetView(at(120)); got.Fleet == nil || got.Hold {
		t.Errorf("59 s after an answer: %+v", got)
	}
	if got := m.fleetView(at(121)); got.Fleet != nil || got.Hold {
		t.Errorf("60 s after an answer: %+v", got)
	}
}
