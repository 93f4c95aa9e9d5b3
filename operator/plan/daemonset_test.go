// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	rolling := daemonSet.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable.IntValue() != 1 {
		t.Errorf("more than one machine at a time would be updated: %+v", rolling)
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
