// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/podtest"
)

// TestHostsToAsk checks that a few suffice where every pod hosts discovery.
func TestHostsToAsk(t *testing.T) {
	pods := []corev1.Pod{podtest.Pod("no-host"), podtest.Pod("unready", podtest.Hosting, podtest.UnreadyFor(time.Minute))}
	if got := hostsToAsk(pods); len(got) != 1 || got[0].Name != "unready" {
		t.Errorf("without ready hosts: %v", got)
	}
	for i := range maxAsked {
		pods = append(pods, podtest.Pod(fmt.Sprint("ready-", i), podtest.Hosting))
	}
	got := hostsToAsk(pods)
	if len(got) != maxAsked || got[0].Name != "ready-0" || got[maxAsked-1].Name != fmt.Sprint("ready-", maxAsked-1) {
		t.Errorf("of one host more than that: %v", got)
	}
}

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
	m.noteFleet(&fleet.Fleet{Members: 4}, nil, at(61))
	m.noteFleet(nil, nil, at(70))
	if got := m.fleetView(at(120)); got.Fleet == nil || got.Hold {
		t.Errorf("59 s after an answer: %+v", got)
	}
	if got := m.fleetView(at(121)); got.Fleet != nil || got.Hold {
		t.Errorf("60 s after an answer: %+v", got)
	}
}
