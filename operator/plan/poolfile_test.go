// SPDX-License-Identifier: Apache-2.0

package plan

import (
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
			file, medium, mounted := variable(daemonSet, "PEERCACHE_POOL_FILE"), corev1.StorageMedium(""), ""
			pod := daemonSet.Spec.Template.Spec
			for _, volume := range pod.Volumes {
				if volume.Name == volumePool {
					medium = volume.EmptyDir.Medium
				}
			}
			for _, mount := range pod.Containers[0].VolumeMounts {
				if mount.Name == volumePool {
					mounted = mount.MountPath
				}
			}
			if medium != test.medium || file != mounted || (file == poolDir) != (test.medium != "") {
				t.Errorf("the file is %q, in a volume at %q of medium %q, want %q", file, mounted, medium, test.medium)
			}
		})
	}
}
