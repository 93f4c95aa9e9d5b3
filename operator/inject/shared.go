// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

const (
	shmPath = "/dev/shm"
	// shmRoom is what a volume for /dev/shm has beyond the host pool: NCCL and vLLM's queues are there, too. shmLeast is what a
	// volume of the user must have beyond it, which is what a container has by default.
	shmRoom  = 1 << 30
	shmLeast = 64 << 20
	// limitShare is how many times the memory limit must hold the host pool, which is pinned and counts against it.
	limitShare = 4
)

// The default of spec.engines.vllm.hostMemory, for definitions that lack the field, and its bounds.
var (
	defaultHostMemory = resource.MustParse("4Gi")
	leastHostMemory   = resource.MustParse("256Mi")
	mostHostMemory    = resource.MustParse("64Ti")
)

// hostMemory is the host memory of each vLLM container of the pod, or the reason why there is none.
func hostMemory(pod *corev1.Pod, facts Facts) (memory resource.Quantity, reason string) {
	text, given := pod.Annotations[names.AnnotationVLLMHostMemory]
	if !given {
		if facts.HostMemory.IsZero() {
			return defaultHostMemory, ""
		}
		return facts.HostMemory, ""
	}
	memory, err := resource.ParseQuantity(text)
	if err != nil || memory.Cmp(leastHostMemory) < 0 || memory.Cmp(mostHostMemory) > 0 || memory.MilliValue()%1000 != 0 {
		return resource.Quantity{}, reasons.HostMemoryInvalid(text, leastHostMemory.String(), mostHostMemory.String())
	}
	return memory, ""
}

// addShared gives a container the room in /dev/shm that its engine needs, or returns a reason. A container has 64Mi there by
// default, and vLLM ends at its start where its host pool does not fit.
func addShared(pod *corev1.Pod, c *corev1.Container, change engines.Change) (reason string) {
	if change.Shared == 0 {
		return ""
	}
	if !change.OwnSize {
		if reason := limitTooLow(pod, c, change.Shared); reason != "" {
			return reason
		}
	}
	at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.TrimRight(m.MountPath, "/") == shmPath })
	switch {
	case at >= 0 && change.OwnSize:
		return ""
	case at >= 0:
		return shmTooSmall(pod, c.VolumeMounts[at].Name, change.Shared)
	case pod.Spec.HostIPC: // the container has the machine's /dev/shm
		return ""
	}
	name := freeVolume(pod, names.Shm)
	if reason := addMounts(c, []corev1.VolumeMount{{Name: name, MountPath: shmPath}}); reason != "" {
		return reason
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(change.Shared+shmRoom, resource.BinarySI),
		},
	}})
	return ""
}

// freeVolume is a name that no volume of the pod has: each container needs a /dev/shm of its own.
func freeVolume(pod *corev1.Pod, name string) string {
	free := name
	for n := 2; slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == free }); n++ {
		free = name + "-" + strconv.Itoa(n)
	}
	return free
}

// limitTooLow returns why the memory limit of the container, or of the pod, leaves the engine too little beside its host pool.
func limitTooLow(pod *corev1.Pod, c *corev1.Container, pool int64) (reason string) {
	need := resource.NewQuantity(limitShare*pool, resource.BinarySI)
	if limit, limited := c.Resources.Limits[corev1.ResourceMemory]; limited && limit.Cmp(*need) < 0 {
		return reasons.HostPoolTooLarge("has", limit.String(), binary(pool), need.String())
	}
	if pod.Spec.Resources == nil {
		return ""
	}
	if limit, limited := pod.Spec.Resources.Limits[corev1.ResourceMemory]; limited && limit.Cmp(*need) < 0 {
		return reasons.HostPoolTooLarge("is in a pod with", limit.String(), binary(pool), need.String())
	}
	return ""
}

// shmTooSmall returns why a volume of the user has no room for the host pool. Only the size of one in memory is known.
func shmTooSmall(pod *corev1.Pod, volume string, pool int64) (reason string) {
	need := resource.NewQuantity(pool+shmLeast, resource.BinarySI)
	for _, v := range pod.Spec.Volumes {
		if v.Name != volume || v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory {
			continue
		}
		if limit := v.EmptyDir.SizeLimit; limit != nil && !limit.IsZero() && limit.Cmp(*need) < 0 {
			return reasons.SharedMemoryTooSmall(volume, limit.String(), binary(pool), need.String())
		}
	}
	return ""
}

func binary(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
