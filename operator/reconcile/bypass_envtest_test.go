// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestBypassLabelsMembers(t *testing.T) {
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster()
	b.pass()
	b.startPods("default", true, true)
	b.pass()
	former := b.daemonSet("default")
	expect := func(when, value string) {
		t.Helper()
		for _, letter := range []string{"a", "b"} {
			if got := b.pod(letter).Labels[v1alpha1.LabelBypass]; got != value {
				t.Errorf("%s, pod %s has label %q", when, letter, got)
			}
		}
		if again := b.pass(); len(again) != 0 {
			t.Errorf("%s, another pass writes %q", when, again)
		}
	}
	expect("at first", "")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Bypass = v1alpha1.SwitchEnabled })
	b.pass()
	expect("when bypassed", v1alpha1.BypassOn)
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "2/2 members serve; SGLang pods run without the cache: spec.injection.bypass is Enabled")
	if now := b.daemonSet("default"); now.Generation != former.Generation {
		t.Errorf("the DaemonSet has changed, and its pods would restart")
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Bypass = v1alpha1.SwitchDisabled })
	b.pass()
	expect("when not any more", "")
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "2/2 members serve")
}

func TestBypassWithoutTheRightToLabelPods(t *testing.T) {
	b := newBench(t)
	b.reconciler.Facts.PodsUnpatched = true
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Bypass = v1alpha1.SwitchEnabled })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "BypassNotPossible", "--patch-pods=false")
}
