// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/peercache/peercache/api/v1alpha1"
)

func mustPlanRemoval(t *testing.T, changes ...func(*v1alpha1.PeerCacheClusterSpec)) (node, removal *appsv1.DaemonSet) {
	t.Helper()
	desired := mustPlan(t, testCluster(changes...))
	if len(desired.PoolRemovals) != 1 {
		t.Fatalf("%d DaemonSets remove the files of pools", len(desired.PoolRemovals))
	}
	return desired.DaemonSets[0], desired.PoolRemovals[0]
}

func TestPoolRemoval(t *testing.T) {
	elsewhere := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	node, removal := mustPlanRemoval(t, inFolder("/run/pool"), func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes = v1alpha1.NodesSpec{Selector: map[string]string{"a": "b"}, PriorityClassName: "high"}
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		s.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(`{"tolerations": [{"key": "gpu", "operator": "Exists"}]}`)}}
	})
	pod, nodePod := removal.Spec.Template.Spec, node.Spec.Template.Spec
	// It is on all machines of the nodes, by what podTemplate adds, too, and stays on those that are drained.
	if pod.NodeSelector["a"] != "b" || !slices.Contains(pod.Tolerations, elsewhere) || pod.PriorityClassName != "high" ||
		pod.ImagePullSecrets[0].Name != "registry" || pod.Affinity != nil || nodePod.Affinity == nil {
		t.Errorf("it runs where %+v, and the node where %+v", pod, nodePod)
	}
	container := pod.Containers[0]
	if *container.SecurityContext.RunAsUser != nodeUser || len(container.SecurityContext.Capabilities.Add) != 0 ||
		container.Image != testImage || container.Resources.Limits.Memory().String() != "16Mi" {
		t.Errorf("the container is %+v", container)
	}
	at := slices.IndexFunc(nodePod.Volumes, func(v corev1.Volume) bool { return v.Name == volumePool })
	if !equality.Semantic.DeepEqual(pod.Volumes, nodePod.Volumes[at:at+1]) || !slices.Contains(nodePod.Containers[0].VolumeMounts, container.VolumeMounts[0]) {
		t.Errorf("it has %+v at %+v, the node %+v", pod.Volumes, container.VolumeMounts, nodePod.Volumes)
	}
	if *pod.TerminationGracePeriodSeconds < 60+10 || *nodePod.TerminationGracePeriodSeconds > 60-10 {
		t.Error("it cannot wait until the node has ended")
	}
	// Neither DaemonSet takes the other's pods, and the cluster's deletion takes both.
	for _, pair := range [][2]*appsv1.DaemonSet{{node, removal}, {removal, node}} {
		selector, err := metav1.LabelSelectorAsSelector(pair[0].Spec.Selector)
		if err != nil || selector.Matches(labels.Set(pair[1].Spec.Template.Labels)) || !selector.Matches(labels.Set(pair[0].Spec.Template.Labels)) {
			t.Errorf("%s selects by %v (%v)", pair[0].Name, selector, err)
		}
	}
	if len(removal.OwnerReferences) != 1 || removal.Labels[LabelManagedBy] != ManagedBy {
		t.Errorf("its metadata is %+v", removal.ObjectMeta)
	}
	if others := mustPlan(t, testCluster()).PoolRemovals; len(others) != 0 {
		t.Errorf("without a folder there is %s", others[0].Name)
	}
}

// TestPoolRemovalsAreDistinct: another file, and another user, have another DaemonSet; what a DaemonSet can change has the same.
func TestPoolRemovalsAreDistinct(t *testing.T) {
	names := map[string]string{}
	for what, changes := range map[string][]func(*v1alpha1.PeerCacheClusterSpec){
		"":       {inFolder("/run/pool")},
		"folder": {inFolder("/run/other")},
		"user":   {inFolder("/run/pool"), withRails(v1alpha1.TransportRDMA, shared("a", 0)), func(s *v1alpha1.PeerCacheClusterSpec) { s.Layout = v1alpha1.LayoutPerNode }},
		"pool": {inFolder("/run/pool"), func(s *v1alpha1.PeerCacheClusterSpec) {
			s.NodePools = []v1alpha1.NodePool{{Name: "p", Selector: map[string]string{"a": "b"}}}
		}},
	} {
		_, removal := mustPlanRemoval(t, changes...)
		if other, taken := names[removal.Name]; taken {
			t.Errorf("%q and %q are both %s", what, other, removal.Name)
		}
		names[removal.Name] = what
	}
	_, same := mustPlanRemoval(t, inFolder("/run/pool"), func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "other" })
	if what, known := names[same.Name]; !known || what != "" {
		t.Errorf("with another image it is %s", same.Name)
	}
}

// TestRemovingPools runs the pod's hook on a folder.
func TestRemovingPools(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string
		inUse string // the file that a node has, also after the command gave up
		left  []string
	}{
		{"one file", []string{"default.pool"}, "", nil},
		{"files of others", []string{"default.pool", "notes"}, "", []string{"notes"}},
		{"nothing there", nil, "", nil},
		{"a node uses it", []string{"default.pool"}, "default.pool", []string{"default.pool"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			for _, name := range test.files {
				if err := os.WriteFile(filepath.Join(folder, name), []byte("pages"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if test.inUse != "" {
				lock(t, filepath.Join(folder, test.inUse))
			}
			if says := runRemoval(t, folder, "1"); says != "" {
				t.Errorf("it says %q", says)
			}
			expectFiles(t, folder, test.left)
		})
	}

	stays := t.TempDir()
	if err := os.Mkdir(filepath.Join(stays, "default.pool"), 0o700); err != nil {
		t.Fatal(err)
	}
	if says := runRemoval(t, stays, "1"); says != stays+"/default.pool cannot be removed\n" {
		t.Errorf("of what cannot be removed it says %q", says)
	}

	// Of a node that ends at the same time it removes the file after that.
	folder := t.TempDir()
	file := filepath.Join(folder, "default.pool")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, file)
	time.AfterFunc(500*time.Millisecond, unlock)
	if says := runRemoval(t, folder, "120"); says != "" {
		t.Errorf("it says %q", says)
	}
	expectFiles(t, folder, nil)
}

// lock locks a file as a node does.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	unlock = func() { _ = file.Close() }
	t.Cleanup(unlock)
	return unlock
}

// runRemoval does what a kubelet does before it ends the pod. What the command says is that of an event, if it fails.
func runRemoval(t *testing.T, folder, seconds string) (says string) {
	t.Helper()
	_, removal := mustPlanRemoval(t, inFolder("/run/pool"))
	line := slices.Clone(removal.Spec.Template.Spec.Containers[0].Lifecycle.PreStop.Exec.Command)
	at := slices.Index(line, poolDir)
	line[at], line[at+1] = folder, seconds
	output, err := exec.CommandContext(t.Context(), line[0], line[1:]...).Output()
	if (err != nil) != (len(output) > 0) {
		t.Errorf("it ends with %v, and says %q", err, output)
	}
	return string(output)
}

// TestRemovalEnds: what the pod runs ends at once when it is told to.
func TestRemovalEnds(t *testing.T) {
	_, removal := mustPlanRemoval(t, inFolder("/run/pool"))
	line := removal.Spec.Template.Spec.Containers[0].Command
	bin := t.TempDir() // says when the command waits
	started := filepath.Join(bin, "started")
	if err := os.WriteFile(filepath.Join(bin, "sleep"), []byte("#!/bin/sh\necho > "+started+"\nexec /bin/sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), line[0], line[1:]...)
	command.Env = []string{"PATH=" + bin + ":/bin:/usr/bin"}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for _, err := os.Stat(started); err != nil; _, err = os.Stat(started) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func expectFiles(t *testing.T, folder string, want []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the folder has %q, want %q", names, want)
	}
}
