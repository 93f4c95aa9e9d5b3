// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// PoolFolderName is the name of the init container that gives the folder of spec.memory.hostPath to the node.
	PoolFolderName = "pool-folder"

	// poolDir is where a node keeps its pool in a file, in a volume that outlives its container.
	poolDir    = "/run/peercache-pool"
	volumePool = "pool"
	// poolViewDir is the same folder, read-only. Other nodes of the machine get the file from there.
	poolViewDir = "/run/peercache-pool-view"
	// defaultDrainBudget is spec.update.drainBudget when left out. With a pool file peercached takes none unless told: it
	// cannot know whether its pod goes for good, or only its container restarts.
	defaultDrainBudget = "8Gi"
	// Beside its pages the file has a table of at most 1/4096 of them, and 128 KiB (docs/dev/pool-file.md).
	poolTableShare = 4096
	poolTail       = 128 << 10
)

// keepsPool says whether the group's nodes keep their pool in a file. Of pages of 1Gi they cannot: the file has a few bytes more
// than the pool, which would cost one such page.
func (g Group) keepsPool(spec v1alpha1.PeerCacheClusterSpec) bool {
	memory := g.Memory(spec)
	return memory.HostPath != "" || spec.Update.Strategy == v1alpha1.UpdateInPlace && memory.HugePages != v1alpha1.HugePages1Gi
}

// anyKeepsPool says whether some nodes of the cluster keep their pool in a file.
func anyKeepsPool(spec v1alpha1.PeerCacheClusterSpec) bool {
	return slices.ContainsFunc(Groups(spec), func(g Group) bool { return g.keepsPool(spec) })
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

// poolVolume is memory of the machine that lives as long as the pod, or with spec.memory.hostPath as long as the machine. A kubelet
// that created that folder would put it on whatever is there when the memory is not mounted.
func (g Group) poolVolume(spec v1alpha1.PeerCacheClusterSpec) corev1.Volume {
	memory := g.Memory(spec)
	if memory.HostPath != "" {
		return corev1.Volume{Name: volumePool, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: memory.HostPath, Type: new(corev1.HostPathDirectory),
		}}}
	}
	medium := corev1.StorageMediumMemory
	if memory.HugePages == v1alpha1.HugePages2Mi {
		medium = corev1.StorageMediumHugePagesPrefix + corev1.StorageMedium(memory.HugePages)
	}
	return corev1.Volume{Name: volumePool, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}

// poolMount is the mount of poolVolume. On the machine it is a folder of the group's own, which the kubelet makes: nodes of other
// groups and clusters may use the same memory.
func (g Group) poolMount(cluster *v1alpha1.PeerCacheCluster) corev1.VolumeMount {
	mount := corev1.VolumeMount{Name: volumePool, MountPath: poolDir}
	if g.Memory(cluster.Spec).HostPath != "" {
		mount.SubPath = strings.Join([]string{cluster.Namespace, cluster.Name, g.FullName()}, ".")
	}
	return mount
}

// addPool gives the node's pod the file of its pool.
func (g Group) addPool(pod *corev1.PodSpec, cluster *v1alpha1.PeerCacheCluster) {
	if !g.keepsPool(cluster.Spec) {
		return
	}
	node, mount := &pod.Containers[0], g.poolMount(cluster)
	view := mount
	view.MountPath, view.ReadOnly = poolViewDir, true
	pod.Volumes = append(pod.Volumes, g.poolVolume(cluster.Spec))
	node.VolumeMounts = append(node.VolumeMounts, mount, view)
	if mounts := []corev1.VolumeMount{mount}; mount.SubPath != "" {
		pod.InitContainers = append(pod.InitContainers,
			chownContainer(PoolFolderName, node.Image, node.ImagePullPolicy, chownFolders(g.owner(cluster.Spec), mounts), mounts))
	}
}
