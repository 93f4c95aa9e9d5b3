// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestPoolFile(t *testing.T) {
	for _, test := range []struct {
		name     string
		strategy v1alpha1.UpdateStrategy
		pages    v1alpha1.HugePages
		medium   corev1.StorageMedium // "" where the pool ends with the process
		size     string
	}{
		{"ordinary pages", v1alpha1.UpdateInPlace, v1alpha1.HugePagesNone, corev1.StorageMediumMemory, "64Gi"},
		{"by hand", v1alpha1.UpdateOnDelete, v1alpha1.HugePagesNone, "", "64Gi"},
		// 16 MiB and 64 KiB for the table, in pages of 2 MiB.
		{"huge pages", v1alpha1.UpdateInPlace, v1alpha1.HugePages2Mi, "HugePages-2Mi", "65518Mi"},
		{"gigabyte pages", v1alpha1.UpdateInPlace, v1alpha1.HugePages1Gi, "", "64Gi"},
		{"new pods", v1alpha1.UpdateRolling, v1alpha1.HugePages2Mi, "", "64Gi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemonSet := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) {
				s.Update.Strategy = test.strategy
				s.Memory = v1alpha1.MemorySpec{Pool: resource.MustParse("64Gi"), HugePages: test.pages}
			})).DaemonSets[0]
			if got := variable(daemonSet, "PEERCACHE_POOL_SIZE"); got != test.size {
				t.Errorf("the pool has %s, want %s", got, test.size)
			}
			// With a file peercached has to be told what others take over.
			config := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.Strategy = test.strategy })).Config
			told := strings.Contains(config.Data[configKey], "drain-budget = \"8Gi\"\n")
			if told != (test.strategy == v1alpha1.UpdateInPlace) {
				t.Errorf("the file says\n%s", config.Data[configKey])
			}
			file, view := variable(daemonSet, "PEERCACHE_POOL_FILE"), variable(daemonSet, "PEERCACHE_POOL_FILE_VIEW")
			medium, mounted, readOnly := corev1.StorageMedium(""), "", ""
			pod := daemonSet.Spec.Template.Spec
			for _, volume := range pod.Volumes {
				if volume.Name == volumePool {
					medium = volume.EmptyDir.Medium
				}
			}
			for _, mount := range pod.Containers[0].VolumeMounts {
				if mount.Name == volumePool && mount.ReadOnly {
					readOnly = mount.MountPath
				} else if mount.Name == volumePool {
					mounted = mount.MountPath
				}
			}
			if medium != test.medium || file != mounted || (file == poolDir) != (test.medium != "") {
				t.Errorf("the file is %q, in a volume at %q of medium %q, want %q", file, mounted, medium, test.medium)
			}
			if view != readOnly || (view == poolViewDir) != (test.medium != "") {
				t.Errorf("other nodes get the file from %q, and the volume is read-only at %q", view, readOnly)
			}
		})
	}
}

// inFolder keeps the pool in a folder of the machine.
func inFolder(folder string) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HostPath = folder }
}

// TestPoolOnTheMachine: whatever the strategy, the file is in a folder of the group's own below that of the machine, which the
// node's user owns. No kubelet may create the machine's: it would be on no memory.
func TestPoolOnTheMachine(t *testing.T) {
	for _, strategy := range []v1alpha1.UpdateStrategy{v1alpha1.UpdateInPlace, v1alpha1.UpdateRolling, v1alpha1.UpdateOnDelete} {
		desired := mustPlan(t, testCluster(withRails(v1alpha1.TransportRDMA, shared("a", 0), shared("b", 1)), inFolder("/run/pool"),
			func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.Strategy = strategy }))
		if !strings.Contains(desired.Config.Data[configKey], "drain-budget = \"8Gi\"\n") {
			t.Errorf("%s: others take over no pages of a node that goes: %s", strategy, desired.Config.Data[configKey])
		}
		for i, group := range []string{"numa0", "numa1"} {
			pod := desired.DaemonSets[i].Spec.Template.Spec
			at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volumePool })
			if at < 0 || pod.Volumes[at].HostPath == nil || pod.Volumes[at].HostPath.Path != "/run/pool" ||
				*pod.Volumes[at].HostPath.Type != corev1.HostPathDirectory {
				t.Fatalf("%s: volumes of %s are %+v", strategy, group, pod.Volumes)
			}
			init := pod.InitContainers[len(pod.InitContainers)-1]
			if want := []string{"0:0", poolDir}; init.Name != PoolFolderName || !slices.Equal(init.Command[len(init.Command)-2:], want) {
				t.Errorf("%s: the folder is given to root by %s %q", strategy, init.Name, init.Command)
			}
			want := corev1.VolumeMount{Name: volumePool, MountPath: poolDir, SubPath: "inference.demo." + group}
			for _, container := range []corev1.Container{pod.Containers[0], init} {
				if !slices.Contains(container.VolumeMounts, want) {
					t.Errorf("%s: container %s of %s mounts %+v", strategy, container.Name, group, container.VolumeMounts)
				}
			}
			want.MountPath, want.ReadOnly = poolViewDir, true
			if mounts := pod.Containers[0].VolumeMounts; !slices.Contains(mounts, want) {
				t.Errorf("%s: for other nodes %s mounts %+v", strategy, group, mounts)
			}
			if file := variable(desired.DaemonSets[i], "PEERCACHE_POOL_FILE"); file != poolDir {
				t.Errorf("%s: the file of %s is %q", strategy, group, file)
			}
		}
	}
	// The pod is charged for pages that it touches first, and with a new file it touches all.
	huge := mustPlan(t, testCluster(inFolder("/mnt/huge"), func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HugePages = v1alpha1.HugePages2Mi }))
	limits := huge.DaemonSets[0].Spec.Template.Spec.Containers[0].Resources.Limits
	if pages := limits["hugepages-2Mi"]; pages.String() != "1Gi" || limits.Memory().String() != "517Mi" || variable(huge.DaemonSets[0], "PEERCACHE_POOL_SIZE") != "1022Mi" {
		t.Errorf("with huge pages the limits are %v", limits)
	}
	plain := mustPlan(t, testCluster(inFolder("/run/pool"))).DaemonSets[0].Spec.Template.Spec.Containers[0]
	if got := plain.Resources.Limits.Memory().String(); got != "1543Mi" {
		t.Errorf("the limit is %s", got)
	}
}

// TestPoolInOneOfTwoFolders: a pool of machines with memory of its own has also the folder of its own.
func TestPoolInOneOfTwoFolders(t *testing.T) {
	desired := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.NodePools = []v1alpha1.NodePool{
			{Name: "a", Selector: map[string]string{"a": "b"}, Memory: &v1alpha1.MemorySpec{Pool: s.Memory.Pool, HostPath: "/run/pool"}},
			{Name: "b", Selector: map[string]string{"a": "c"}},
		}
	}))
	files := []string{variable(desired.DaemonSets[0], "PEERCACHE_POOL_FILE"), variable(desired.DaemonSets[1], "PEERCACHE_POOL_FILE")}
	if !slices.Equal(files, []string{poolDir, ""}) || len(desired.PoolRemovals) != 1 {
		t.Errorf("the files are %q, and %d DaemonSets remove them", files, len(desired.PoolRemovals))
	}
}
