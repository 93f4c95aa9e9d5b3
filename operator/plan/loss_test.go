// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestLossIsConfirmed changes what groups follow from, for a cluster with two groups of two ready members each.
func TestLossIsConfirmed(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*v1alpha1.PeerCacheClusterSpec)
		confirmed string
		ready     int32
		says      string
	}{
		"nothing":                   {func(*v1alpha1.PeerCacheClusterSpec) {}, "", 2, ""},
		"another pool size":         {func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.Pool.Add(s.Memory.Pool) }, "", 2, ""},
		"another layout":            {perNode, "", 2, "pcc -n inference demo peercache.io/confirm-loss=numa0,numa1 --overwrite"},
		"another layout, confirmed": {perNode, "numa0,numa1", 2, ""},
		"confirmed in part":         {perNode, "numa1", 2, "(numa0,numa1); 4 members would lose their pages there"},
		"confirmed for others":      {perNode, "default", 2, "confirm-loss=numa0,numa1"},
		"nobody serves":             {perNode, "", 0, ""},
		"the first pools": {func(s *v1alpha1.PeerCacheClusterSpec) {
			s.NodePools = []v1alpha1.NodePool{{Name: "gpu", Selector: map[string]string{"a": "b"}, Rails: []string{"a", "b"}}}
		}, "", 2, "(numa0,numa1)"},
		"another name of a group": {func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails[1].NUMANode, s.Rails[1].Group = nil, "fast"
		}, "", 2, "(numa1); 2 members would lose their pages there"},
		"another sharing":            {shareAll, "", 2, "(sharing=Cluster); 4 members would lose their pages there"},
		"another sharing, confirmed": {shareAll, "sharing=Cluster", 2, ""},
		"the former one, confirmed":  {shareAll, "sharing=Namespace", 2, "confirm-loss=sharing=Cluster"},
		"one group more":             {func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = append(s.Rails, shared("c", 2)) }, "", 2, ""},
	} {
		cluster := testCluster(withRails(v1alpha1.TransportRDMA, shared("a", 0), shared("b", 1)))
		live := map[string]*appsv1.DaemonSet{}
		for _, daemonSet := range mustPlan(t, cluster).DaemonSets {
			daemonSet.Status.NumberReady = test.ready
			live[daemonSet.Name] = daemonSet
		}
		test.change(&cluster.Spec)
		cluster.Annotations = map[string]string{v1alpha1.AnnotationConfirmLoss: test.confirmed}
		problem := mustPlan(t, cluster).UnconfirmedLoss(cluster, live)
		switch {
		case test.says == "" && problem != nil:
			t.Errorf("%s: %v", name, problem)
		case test.says != "" && (problem == nil || problem.Reason != "LossNotConfirmed" || !strings.Contains(problem.Message, test.says)):
			t.Errorf("%s: got %v, want it to say %q", name, problem, test.says)
		}
	}
}

// TestLossOfFoldersIsConfirmed changes the disk of a cluster with one group of two ready members.
func TestLossOfFoldersIsConfirmed(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*v1alpha1.PeerCacheClusterSpec)
		confirmed string
		ready     int32
		says      string
	}{
		"nothing": {func(*v1alpha1.PeerCacheClusterSpec) {}, "", 2, ""},
		"a folder goes": {onDisk("/mnt/b"), "", 2,
			"(default:/mnt/a); 2 members would lose their pages there: undo the change, or confirm the loss: " +
				"kubectl annotate pcc -n inference demo peercache.io/confirm-loss=default:/mnt/a --overwrite"},
		"a folder goes, confirmed":    {onDisk("/mnt/b"), "default:/mnt/a", 2, ""},
		"another was confirmed":       {onDisk("/mnt/b"), "default,default:/mnt/b", 2, "(default:/mnt/a)"},
		"nobody serves":               {onDisk("/mnt/b"), "", 0, ""},
		"the disk goes":               {func(s *v1alpha1.PeerCacheClusterSpec) { s.Disk = nil }, "default:/mnt/a", 2, "(default:/mnt/a,default:/mnt/b)"},
		"volumes instead":             {onVolumes(1), "", 2, "(default:/mnt/a,default:/mnt/b)"},
		"another order and a new one": {onDisk("/mnt/c", "/mnt/b", "/mnt/a"), "", 2, ""},
		"another size":                {func(s *v1alpha1.PeerCacheClusterSpec) { s.Disk.Size = resource.MustParse("1Gi") }, "", 2, ""},
	} {
		cluster := testCluster(onDisk("/mnt/a", "/mnt/b"))
		daemonSet := mustPlan(t, cluster).DaemonSets[0]
		daemonSet.Status.NumberReady = test.ready
		test.change(&cluster.Spec)
		cluster.Annotations = map[string]string{v1alpha1.AnnotationConfirmLoss: test.confirmed}
		problem := mustPlan(t, cluster).UnconfirmedLoss(cluster, map[string]*appsv1.DaemonSet{daemonSet.Name: daemonSet})
		if (problem == nil) != (test.says == "") || problem != nil && !strings.Contains(problem.Message, test.says) {
			t.Errorf("%s: got %v, want it to say %q", name, problem, test.says)
		}
	}
}

func perNode(s *v1alpha1.PeerCacheClusterSpec) {
	s.Layout = v1alpha1.LayoutPerNode
	for i := range s.Rails {
		s.Rails[i].NUMANode = nil
	}
}
