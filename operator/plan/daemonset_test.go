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
		"peercache.io/peers": peersDigest(testCluster()), "peercache.io/pod-shape": podShape(daemonSet.Spec.Template),
		"peercache.io/pod-images": ImagesDigest(&daemonSet.Spec.Template.Spec, &daemonSet.Spec.Template.Spec),
	}
	maps.Copy(labels, outOfMeshesLabels)
	if !maps.Equal(daemonSet.Spec.Template.Labels, labels) {
		t.Errorf("pod labels are %v, want %v", daemonSet.Spec.Template.Labels, labels)
	}
}

// TestPodShape changes the image, and then something else.
func TestPodShape(t *testing.T) {
	shape := func(change func(*v1alpha1.PeerCacheClusterSpec)) string {
		cluster := testCluster()
		change(&cluster.Spec)
		return mustPlan(t, cluster).DaemonSets[0].Spec.Template.Labels[v1alpha1.LabelPodShape]
	}
	before := shape(func(*v1alpha1.PeerCacheClusterSpec) {})
	if after := shape(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" }); after != before {
		t.Errorf("another image changes the shape from %s to %s", before, after)
	}
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){
		"the configuration": func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds = 2000 },
		"an annotation": func(s *v1alpha1.PeerCacheClusterSpec) {
			s.PodTemplate = &v1alpha1.PodTemplate{Metadata: v1alpha1.PodTemplateMetadata{Annotations: map[string]string{"a": "b"}}}
		},
	} {
		if shape(change) == before {
			t.Errorf("%s does not change the shape", name)
		}
	}
}

func TestUpdateStrategy(t *testing.T) {
	tests := []struct {
		name string
		spec v1alpha1.UpdateSpec
		now  *v1alpha1.UpdateStatus
		want string // MaxUnavailable or OnDelete
	}{
		{"in place", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateInPlace}, nil, "OnDelete"},
		{"a tenth at a time", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling}, nil, "10%"},
		{"more", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling, MaxUnavailable: new(intstr.FromInt32(4))}, nil, "4"},
		{"a share", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling, MaxUnavailable: new(intstr.FromString("25%"))}, nil, "25%"},
		{"by hand", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateOnDelete}, nil, "OnDelete"},
		{"under way", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling}, &v1alpha1.UpdateStatus{State: v1alpha1.UpdateProceeding}, "10%"},
		{"paused", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateRolling}, &v1alpha1.UpdateStatus{State: v1alpha1.UpdatePaused}, "OnDelete"},
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
	pod := mustPlan(t, testCluster(shareAll)).DaemonSets[0].Spec.Template.Spec
	sockets := volumeNamed(t, pod, "socket").HostPath
	if sockets == nil || sockets.Path != "/run/peercache/inference/demo" || *sockets.Type != corev1.HostPathDirectoryOrCreate {
		t.Errorf("sockets are in %+v of the machine", sockets)
	}
	if got := SocketPath("numa0"); got != "/run/peercache/numa0.sock" {
		t.Errorf("socket is %q", got)
	}
}
