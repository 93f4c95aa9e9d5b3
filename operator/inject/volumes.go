// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// podVolume is a volume to add, and how it is recognised when it is there already.
type podVolume struct {
	volume corev1.Volume
	ours   func(corev1.Volume) bool
}

// addVolume adds a volume to the pod, or says why it cannot.
func addVolume(pod *corev1.Pod, add podVolume) (reason string) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == add.volume.Name })
	switch {
	case i < 0:
		pod.Spec.Volumes = append(pod.Spec.Volumes, add.volume)
	case !add.ours(pod.Spec.Volumes[i]):
		return reasonVolumeTaken(add.volume.Name)
	}
	return ""
}

// machineSockets is the directory where the cluster's nodes of the machine have their sockets. One that does
// not exist yet is created, by the kubelet or by the CSI driver, so that an SGLang pod that starts before the node does
// is not held back; the store connects when the socket appears.
func machineSockets(facts Facts) podVolume {
	if facts.Socket == v1alpha1.SocketCSI {
		return fromDriver(map[string]string{plan.CSINamespace: facts.Namespace, plan.CSICluster: facts.Cluster})
	}
	directory := plan.HostSocketDir(facts.Namespace, facts.Cluster)
	return podVolume{
		corev1.Volume{Name: plan.SocketVolume, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: directory, Type: new(corev1.HostPathDirectoryOrCreate)},
		}},
		func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == directory },
	}
}

// fromDriver is the same directory from the CSI driver.
func fromDriver(attributes map[string]string) podVolume {
	return podVolume{
		corev1.Volume{Name: plan.SocketVolume, VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: plan.CSIDriver, ReadOnly: new(true), VolumeAttributes: attributes},
		}},
		func(v corev1.Volume) bool {
			return v.CSI != nil && v.CSI.Driver == plan.CSIDriver && v.CSI.ReadOnly != nil && *v.CSI.ReadOnly &&
				maps.Equal(v.CSI.VolumeAttributes, attributes)
		},
	}
}

// emptyVolume is a directory that lives as long as the pod.
func emptyVolume(name string) podVolume {
	return podVolume{
		corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		func(v corev1.Volume) bool { return v.EmptyDir != nil },
	}
}

// sidecarSockets is the directory of the pod's own node. It holds a socket and no data, so it is in memory: a disk that is
// full or slow does not concern it. What is written there counts as the pod's memory, hence the limit.
func sidecarSockets() podVolume {
	volume := emptyVolume(plan.SocketVolume)
	volume.volume.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("1Mi"))}
	return volume
}

// addMounts mounts volumes, or says why they cannot be mounted. Connecting to a socket needs write permission
// on the socket, not on the mount, so all are read-only.
func addMounts(c *corev1.Container, mounts []corev1.VolumeMount) (reason string) {
	for _, m := range mounts {
		mounted := false
		for _, have := range c.VolumeMounts {
			switch {
			case have.Name == m.Name && have.MountPath == m.MountPath:
				mounted = true
			case overlap(have.MountPath, m.MountPath):
				// A mount above ours may be read-only, and then the runtime cannot create our directory in it.
				return reasonOverlap(have.Name, have.MountPath, m.MountPath)
			}
		}
		if !mounted {
			c.VolumeMounts = append(c.VolumeMounts, m)
		}
	}
	return ""
}

// overlap says whether one path is the other, or lies above it.
func overlap(a, b string) bool {
	a, b = strings.TrimRight(a, "/")+"/", strings.TrimRight(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}
