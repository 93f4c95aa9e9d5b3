// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// removals are the folder and the image of each DaemonSet that removes files of pools, in the order of their creation.
func (b *bench) removals() []string {
	b.Helper()
	var daemonSets appsv1.DaemonSetList
	b.must(b.List(b.Context(), &daemonSets, client.InNamespace(b.namespace), client.MatchingLabels{plan.LabelComponent: plan.ComponentPoolFile}))
	slices.SortFunc(daemonSets.Items, func(x, y appsv1.DaemonSet) int { return strings.Compare(x.ResourceVersion, y.ResourceVersion) })
	var list []string
	for _, daemonSet := range daemonSets.Items {
		if !metav1.IsControlledBy(&daemonSet, b.get()) {
			b.Errorf("%s does not go with the cluster", daemonSet.Name)
		}
		pod := daemonSet.Spec.Template.Spec
		list = append(list, pod.Volumes[0].HostPath.Path+" "+pod.Containers[0].Image)
	}
	slices.Sort(list)
	return list
}

func (b *bench) expectRemovals(when string, want ...string) {
	b.Helper()
	if got := b.removals(); !slices.Equal(got, want) {
		b.Errorf("%s: DaemonSets remove %q, want %q", when, got, want)
	}
}

// replacePods acts as the DaemonSet controller: all pods are new, of which some are ready.
func (b *bench) replacePods(ready int32) {
	b.Helper()
	for _, letter := range []string{"a", "b", "c"} {
		b.must(b.Delete(b.Context(), b.pod(letter)))
	}
	b.startPods("default", true, true, true)
	for range 2 { // the first pass has the operator decide about the pods again
		b.setCounts("default", 3, 3, ready)
		b.pass()
	}
}

// TestPoolRemovalsFollowTheNodes: a file is removed when no node can use it any more, and never while one restarts.
func TestPoolRemovalsFollowTheNodes(t *testing.T) {
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HostPath, s.Image = "/run/a", "dataplane:1" })
	b.pass()
	b.expectRemovals("a new cluster", "/run/a dataplane:1")
	b.startNumbered()
	b.pass()
	if again := b.pass(); len(again) != 0 {
		t.Errorf("with nothing to do a pass writes %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	b.expectRemovals("before the controller has seen the image", "/run/a dataplane:1")
	b.revise(2)
	b.setCounts("default", 3, 0, 3)
	b.pass()
	b.setCounts("default", 3, 3, 3)
	b.pass()
	b.expectRemovals("while a container restarts", "/run/a dataplane:1")
	for _, letter := range []string{"a", "b", "c"} {
		b.restart(letter)
		b.pass()
	}
	b.setCounts("default", 3, 3, 2)
	b.pass()
	b.expectRemovals("while one does not serve", "/run/a dataplane:1")
	b.setCounts("default", 3, 3, 3)
	b.pass()
	b.expectRemovals("with all nodes updated", "/run/a dataplane:2")

	// The new file can be removed from the beginning, the former one when nobody has it.
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HostPath = "/run/b" })
	b.pass()
	b.expectRemovals("another folder", "/run/a dataplane:2", "/run/b dataplane:2")
	b.setCounts("default", 3, 2, 3)
	b.pass()
	b.setCounts("default", 3, 2, 3)
	b.pass()
	b.expectRemovals("with one node in the former folder", "/run/a dataplane:2", "/run/b dataplane:2")
	b.events()
	b.replacePods(2) // a machine that is broken delays no other
	b.expectRemovals("without a node in the former folder", "/run/b dataplane:2")
	if events := b.events(); !slices.ContainsFunc(events, func(event string) bool { return strings.Contains(event, "PoolFilesRemoved") }) {
		t.Errorf("events are %q", events)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HostPath = "" })
	b.pass()
	b.expectRemovals("no folder", "/run/b dataplane:2")
	b.replacePods(3)
	b.expectRemovals("no folder, and no node in one")
	b.pass()
	if again := b.pass(); len(again) != 0 {
		t.Errorf("after all that a pass writes %q", again)
	}
}

// TestPoolRemovalsArePlanned: mode Plan tells of them, and makes none.
func TestPoolRemovalsArePlanned(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HostPath, s.Mode = "/run/a", v1alpha1.ModePlan })
	b.pass()
	b.expectRemovals("a plan")
	if changes := strings.Join(b.get().Status.Plan.Changes, "\n"); !strings.Contains(changes, "create DaemonSet "+b.namespace+"/demo-default-pool-") {
		t.Errorf("the plan is\n%s", changes)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode = v1alpha1.ModeApply })
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HostPath, s.Mode = "", v1alpha1.ModePlan })
	b.pass()
	if changes := strings.Join(b.get().Status.Plan.Changes, "\n"); !strings.Contains(changes, "delete DaemonSet "+b.namespace+"/demo-default-pool-") {
		t.Errorf("the plan is\n%s", changes)
	}
}

// TestPoolRemovalThatDoesNotRun: the cluster says so, serves all the same, and says when it is over.
func TestPoolRemovalThatDoesNotRun(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HostPath = "/run/a" })
	b.pass()
	b.startNumbered()
	var daemonSets appsv1.DaemonSetList
	b.must(b.List(b.Context(), &daemonSets, client.InNamespace(b.namespace), client.MatchingLabels{plan.LabelComponent: plan.ComponentPoolFile}))
	of := &daemonSets.Items[0]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: of.Name + "-a", Labels: of.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: of.Spec.Template.Spec,
	}
	b.must(b.Create(b.Context(), pod))
	for _, test := range []struct {
		state corev1.ContainerState
		want  string
	}{
		{corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
			"True ImagePullBackOff: pod " + pod.Name + ": image x cannot be pulled: check spec.image and spec.imagePullSecrets (no such image); " +
				"while it does not run, nothing removes the pool's file of spec.memory.hostPath there when the cluster is deleted"},
		{corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, "False NoFaults: no member is broken"},
	} {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: plan.ComponentPoolFile, Image: "x", State: test.state}}
		b.must(b.Status().Update(b.Context(), pod))
		b.pass()
		degraded := meta.FindStatusCondition(b.get().Status.Conditions, v1alpha1.ConditionDegraded)
		if got := fmt.Sprintf("%s %s: %s", degraded.Status, degraded.Reason, degraded.Message); got != test.want {
			t.Errorf("Degraded is\n%s, want\n%s", got, test.want)
		}
		if ready := meta.FindStatusCondition(b.get().Status.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
			t.Errorf("Ready is %v", ready)
		}
	}
}
