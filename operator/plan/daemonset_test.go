// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestDaemonSet(t *testing.T) {
	daemonSet := mustPlan(t, testCluster()).DaemonSets[0]
	if daemonSet.Name != "demo-default" {
		t.Errorf("name is %q", daemonSet.Name)
	}
	selector := map[string]string{"peercache.io/cluster": "demo", "peercache.io/group": "default"}
	if !maps.Equal(daemonSet.Spec.Selector.MatchLabels, selector) {
		t.Errorf("the selector is immutable in every cluster that exists; it became %v", daemonSet.Spec.Selector.MatchLabels)
	}
	for key, value := range selector {
		if daemonSet.Spec.Template.Labels[key] != value {
			t.Errorf("pods lack label %s=%s", key, value)
		}
	}
	labels := map[string]string{
		"app.kubernetes.io/name": "peercache", "app.kubernetes.io/component": "node",
		"app.kubernetes.io/instance": "demo", "app.kubernetes.io/managed-by": "peercache-operator",
		"peercache.io/cluster": "demo", "peercache.io/group": "default",
	}
	if !maps.Equal(daemonSet.Spec.Template.Labels, labels) {
		t.Errorf("pod labels are %v, want %v", daemonSet.Spec.Template.Labels, labels)
	}
}

func TestUpdateStrategy(t *testing.T) {
	tests := []struct {
		name string
		spec v1alpha1.UpdateSpec
		now  *v1alpha1.UpdateStatus
		want string // MaxUnavailable, or OnDelete
	}{
		{"one machine at a time", v1alpha1.UpdateSpec{}, nil, "1"},
		{"more", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling, MaxUnavailable: new(intstr.FromInt32(4))}, nil, "4"},
		{"a share", v1alpha1.UpdateSpec{MaxUnavailable: new(intstr.FromString("10%"))}, nil, "10%"},
		{"draining", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateDrain, MaxUnavailable: new(intstr.FromInt32(2))}, nil, "2"},
		{"draining, but paused", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateDrain}, &v1alpha1.UpdateStatus{State: v1alpha1.UpdatePaused}, "OnDelete"},
		{"by hand", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateOnDelete}, nil, "OnDelete"},
		{"under way", v1alpha1.UpdateSpec{}, &v1alpha1.UpdateStatus{State: v1alpha1.UpdateProceeding}, "1"},
		{"paused", v1alpha1.UpdateSpec{}, &v1alpha1.UpdateStatus{State: v1alpha1.UpdatePaused}, "OnDelete"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cluster := testCluster()
			cluster.Spec.Update, cluster.Status.Update = test.spec, test.now
			strategy := mustPlan(t, cluster).DaemonSets[0].Spec.UpdateStrategy
			got := string(strategy.Type)
			if rolling := strategy.RollingUpdate; rolling != nil {
				got = rolling.MaxUnavailable.String()
				if rolling.MaxSurge.IntValue() != 0 {
					t.Errorf("two nodes of a machine would want one socket: %+v", rolling)
				}
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestSocketDirectory(t *testing.T) {
	pod := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template.Spec
	var onMachine string
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			onMachine = volume.HostPath.Path
			if *volume.HostPath.Type != corev1.HostPathDirectoryOrCreate {
				t.Errorf("the directory %s is not created", onMachine)
			}
		}
	}
	if onMachine != "/run/peercache/inference/demo" {
		t.Errorf("sockets are in %q of the machine", onMachine)
	}
	if got := SocketPath("numa0"); got != "/run/peercache/numa0.sock" {
		t.Errorf("socket is %q", got)
	}
}
