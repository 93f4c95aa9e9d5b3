// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// poolDir is where a node keeps its pool in a file, in a volume that outlives its container.
	poolDir    = "/run/peercache-pool"
	volumePool = "pool"
	// defaultDrainBudget is spec.update.drainBudget when left out. With a pool file peercached takes none unless told: it
	// cannot know whether its pod goes, or only its container restarts.
	defaultDrainBudget = "8Gi"
	// Beside its pages the file has a table of at most 1/4096 of them, and 64 KiB (docs/restart.md).
	poolTableShare = 4096
	poolTail       = 64 << 10
)

// keepsPool says whether the group's nodes keep their pool in a file. Of pages of 1Gi they cannot: the file has a few bytes more
// than the pool, which would cost one such page.
func (g Group) keepsPool(spec v1alpha1.PeerCacheClusterSpec) bool {
	return spec.Update.Strategy == v1alpha1.UpdateInPlace && g.Memory(spec).HugePages != v1alpha1.HugePages1Gi
}

// filePool is the pool whose file fits into the memory that the group requests. Ordinary pages have the memory overhead for the
// rest of the file; of huge pages there are as many as the pool asks for.
func (g Group) filePool(spec v1alpha1.PeerCacheClusterSpec) resource.Quantity {
	pool := g.Memory(spec).Pool.DeepCopy()
	if g.Memory(spec).HugePages == v1alpha1.HugePages2Mi {
		const page = 2 << 20
		beside := (pool.Value()/poolTableShare + poolTail + page - 1) / page * page
		pool.Sub(*resource.NewQuantity(beside, resource.BinarySI))
	}
	return pool
}

// poolVolume is memory of the machine that lives as long as the pod.
func (g Group) poolVolume(spec v1alpha1.PeerCacheClusterSpec) corev1.Volume {
	medium := corev1.StorageMediumMemory
	if size := g.Memory(spec).HugePages; size == v1alpha1.HugePages2Mi {
		medium = corev1.StorageMediumHugePagesPrefix + corev1.StorageMedium(size)
	}
	return corev1.Volume{Name: volumePool, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}
