// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestAChangedPauseTriggersAPass(t *testing.T) {
	in := func(state v1alpha1.UpdateState) *v1alpha1.PeerCacheCluster {
		cluster := &v1alpha1.PeerCacheCluster{}
		if state != "" {
			cluster.Status.Update = &v1alpha1.UpdateStatus{State: state}
		}
		return cluster
	}
	for _, test := range []struct {
		before, after v1alpha1.UpdateState
		passes        bool
	}{
		{v1alpha1.UpdateProceeding, v1alpha1.UpdatePaused, true},
		{v1alpha1.UpdatePaused, v1alpha1.UpdateProceeding, true},
		{v1alpha1.UpdatePaused, "", true},
		{"", v1alpha1.UpdateProceeding, false},
		{v1alpha1.UpdatePaused, v1alpha1.UpdatePaused, false},
		{"", "", false},
	} {
		if got := updatePauseChanged.Update(event.UpdateEvent{ObjectOld: in(test.before), ObjectNew: in(test.after)}); got != test.passes {
			t.Errorf("from %q to %q: got %t", test.before, test.after, got)
		}
	}
}
