// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Somebody who undoes every repair at once has the object repaired ever more rarely, is told of, and loses in the end.
func TestFightsAreSlow(t *testing.T) {
	for name, act := range map[string]func(*bench) bool{
		"a DaemonSet that another edits": func(b *bench) bool {
			daemonSet := b.daemonSet("default")
			image := &daemonSet.Spec.Template.Spec.Containers[0].Image
			if *image == "evil:1" {
				return false
			}
			*image = "evil:1"
			b.must(b.Update(b.Context(), daemonSet))
			return true
		},
		"a Service that another deletes": func(b *bench) bool {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "demo-discovery"}}
			err := b.Delete(b.Context(), service)
			b.must(client.IgnoreNotFound(err))
			return err == nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cluster()
			b.pass()
			b.roll("default", true, true)
			c := newClock(b)
			c.wait(10 * time.Minute)
			b.events()
			acted, looks := 0, 0
			for end := c.now.Add(time.Hour); c.now.Before(end); looks++ { // after the first repair each is undone at once
				if act(b) {
					acted++
					c.look() // the event calls for it at once
				}
				_, again := c.look()
				c.now = c.now.Add(again)
			}
			if acted > 20 || looks > 250 {
				t.Errorf("%d repairs and %d looks in an hour, want at most 20 and 250", acted-1, looks)
			}
			recorded := slices.DeleteFunc(b.events(), func(event string) bool { return !strings.Contains(event, " Repaired") })
			if len(recorded) < 2 || !strings.HasPrefix(recorded[0], "Normal Repaired ") || !strings.HasPrefix(recorded[1], "Warning RepairedAgain ") {
				t.Errorf("the user is told %q", recorded)
			}
			c.wait(repairAtLeast)
			if !act(b) {
				t.Errorf("the other stopped more than %s ago, and the object is not repaired", repairAtLeast)
			}
		})
	}
}

// A field that the API server alters is told once, and not written again and again.
func TestWhatTheAPIServerAltersIsTold(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = template(`{"serviceAccount": "other"}`) // serviceAccountName, which the operator sets, wins
	})
	b.pass()
	const told = "Warning Altered DaemonSet "
	altered := func() int {
		return len(slices.DeleteFunc(b.events(), func(event string) bool { return !strings.HasPrefix(event, told) }))
	}
	if altered() != 1 {
		t.Error("the user is not told")
	}
	for range 3 {
		if again := b.pass(); len(again) != 0 {
			t.Errorf("nothing changed, but the operator wrote %q", again)
		}
	}
	daemonSet := b.daemonSet("default")
	daemonSet.Spec.Template.Spec.Containers[0].Image = "evil:1"
	b.must(b.Update(t.Context(), daemonSet))
	b.pass()
	if image := b.daemonSet("default").Spec.Template.Spec.Containers[0].Image; image != "dataplane:1" {
		t.Errorf("what somebody else changes is not repaired: the image is %s", image)
	}
	if altered() != 0 {
		t.Error("the user is told again")
	}
}
