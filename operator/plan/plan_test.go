// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestObjects(t *testing.T) {
	cluster := testCluster(withRails(v1alpha1.TransportRDMA, shared("rail0", 0), shared("rail1", 1)))
	var got []string
	for _, object := range mustPlan(t, cluster).Objects() {
		got = append(got, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
		if object.GetNamespace() != "inference" {
			t.Errorf("%s is in namespace %q", object.GetName(), object.GetNamespace())
		}
		owners := object.GetOwnerReferences()
		if len(owners) != 1 || owners[0].UID != cluster.UID || owners[0].Controller == nil || !*owners[0].Controller ||
			owners[0].APIVersion != "peercache.io/v1alpha1" || owners[0].Kind != "PeerCacheCluster" {
			t.Errorf("%s is not owned by the cluster: %+v", object.GetName(), owners)
		}
		labels := object.GetLabels()
		if labels[v1alpha1.LabelCluster] != "demo" || labels[LabelManagedBy] != "peercache-operator" ||
			labels[LabelInstance] != "demo" || labels[LabelName] != "peercache" {
			t.Errorf("%s lacks labels: %v", object.GetName(), labels)
		}
	}
	want := []string{
		"ServiceAccount demo-node", "ConfigMap demo-config", "Service demo-discovery",
		"DaemonSet demo-numa0", "DaemonSet demo-numa1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestImage(t *testing.T) {
	tests := []struct{ inSpec, want string }{
		{"", testImage},
		{"registry.example.com/dataplane:1", "registry.example.com/dataplane:1"},
	}
	for _, test := range tests {
		desired := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = test.inSpec }))
		if got := desired.DaemonSets[0].Spec.Template.Spec.Containers[0].Image; got != test.want || desired.Image != test.want {
			t.Errorf("image %q: got %q and %q, want %q", test.inSpec, got, desired.Image, test.want)
		}
	}
}

func TestPlanDoesNotAliasTheCluster(t *testing.T) {
	cluster := testCluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"a": "b"}
	})
	before := cluster.DeepCopy()
	desired := mustPlan(t, cluster)
	desired.DaemonSets[0].Spec.Template.Spec.NodeSelector["a"] = "changed"
	if cluster.Spec.Nodes.Selector["a"] != before.Spec.Nodes.Selector["a"] {
		t.Error("changing a planned object changed the cluster it was planned from")
	}
}
