// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// buildResources requests and limits the same amounts, so that the pod is Guaranteed: the static CPU manager and the topology
// manager align only such pods. The pool is shared memory, which counts as memory of the container unless it uses huge pages.
func buildResources(spec v1alpha1.PeerCacheClusterSpec, group Group) corev1.ResourceRequirements {
	pool := group.Memory(spec)
	memory := group.overhead(spec)
	memory.Add(group.diskMemory(spec))
	list := corev1.ResourceList{corev1.ResourceCPU: group.resources(spec).CPU.DeepCopy()}
	switch pool.HugePages {
	case v1alpha1.HugePages2Mi, v1alpha1.HugePages1Gi:
		list[corev1.ResourceName(corev1.ResourceHugePagesPrefix+string(pool.HugePages))] = pool.Pool.DeepCopy()
	default:
		memory.Add(pool.Pool)
	}
	list[corev1.ResourceMemory] = memory
	maps.Copy(list, group.devicesOf())
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

const (
	// meanPage is the length of pages that a node's indexes have room for.
	meanPage = 64 << 10
	// poolIndexEntry is what a page takes beside the pool: its entry there, its record in the directory, and the tables' own
	// growth. test_index_memory.py measures it.
	poolIndexEntry = 320
	// pageTableShare of the memory that ordinary pages map is in page tables, which the kernel charges to whoever maps it: 8
	// bytes for every 4Ki.
	pageTableShare = 512
)

// overhead is the memory of a node besides its pool and its drives: what the spec says, the index of the pool, and its page tables.
func (g Group) overhead(spec v1alpha1.PeerCacheClusterSpec) resource.Quantity {
	pool := g.Memory(spec)
	beside := wholeMebibytes(pool.Pool.Value() / meanPage * poolIndexEntry)
	if hugePages(pool.HugePages) == "off" {
		beside += wholeMebibytes(pool.Pool.Value() / pageTableShare)
	}
	memory := g.resources(spec).MemoryOverhead.DeepCopy()
	memory.Add(*resource.NewQuantity(beside, resource.BinarySI))
	return memory
}

func wholeMebibytes(bytes int64) int64 {
	const mebibyte = 1 << 20
	return (bytes + mebibyte - 1) / mebibyte * mebibyte
}

// devicesOf are the extended resources of the group's rails.
func (g Group) devicesOf() corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, rail := range g.Rails {
		name := corev1.ResourceName(rail.ResourceName())
		if name == "" {
			continue
		}
		count := list[name]
		count.Add(*resource.NewQuantity(1, resource.DecimalSI))
		list[name] = count
	}
	return list
}
