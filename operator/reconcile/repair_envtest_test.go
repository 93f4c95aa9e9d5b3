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
	"github.com/peercache/peercache/operator/apply"
)

// TestRepairsOfAContestedObjectBecomeRare changes an object after every repair. Repairs become rare, and an event reports the
// change. When the changes stop, the operator's version stays.
func TestRepairsOfAContestedObjectBecomeRare(t *testing.T) {
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
			b.startPods("default", true, true)
			c := newClock(b)
			c.wait(10 * time.Minute)
			b.events()
			acted, passes := 0, 0
			for end := c.now.Add(time.Hour); c.now.Before(end); passes++ { // each repair is undone immediately
				if act(b) {
					acted++
					c.reconcile() // the event triggers a pass
				}
				_, again := c.reconcile()
				c.now = c.now.Add(again)
			}
			if acted > 20 || passes > 250 {
				t.Errorf("%d repairs and %d passes in an hour, want at most 20 and 250", acted-1, passes)
			}
			recorded := slices.DeleteFunc(b.events(), func(event string) bool { return !strings.Contains(event, " Repaired") })
			if len(recorded) < 2 || !strings.HasPrefix(recorded[0], "Normal Repaired ") || !strings.HasPrefix(recorded[1], "Warning RepairedAgain ") {
				t.Errorf("the user is told %q", recorded)
			}
			c.wait(apply.MaxRepairDelay)
			if !act(b) {
				t.Errorf("the other stopped more than %s ago, and the object is not repaired", apply.MaxRepairDelay)
			}
		})
	}
}

// TestFieldAlteredByTheAPIServerIsReported checks that such a field causes one event, and no repeated writes.
func TestFieldAlteredByTheAPIServerIsReported(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = template(`{"serviceAccount": "other"}`) // serviceAccountName overrides it
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
