// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/plan"
)

// podVolume is a volume to add. matches recognises it in a pod that has it already.
type podVolume struct {
	volume  corev1.Volume
	matches func(corev1.Volume) bool
}

// addVolume adds a volume to the pod, or returns a reason.
func addVolume(pod *corev1.Pod, add podVolume) (reason string) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == add.volume.Name })
	switch {
	case i < 0:
		pod.Spec.Volumes = append(pod.Spec.Volumes, add.volume)
	case !add.matches(pod.Spec.Volumes[i]):
		return reasons.VolumeTaken(add.volume.Name)
	}
	return ""
}

// machineSockets is the directory with the sockets of the cluster's nodes on the machine. The kubelet or the CSI driver
// creates a missing directory, so a pod can start before the node; the store connects when the socket appears.
//
// Where namespaces are isolated, the CSI driver mounts the folder of the pod's namespace, whatever the pod says. A hostPath
// holds the folders of all namespaces, and the mount selects one by subPath. The kubelet then creates that folder with the
// permissions and the group of its parent. With a hostPath of its own, the folder would belong to root.
func machineSockets(facts Facts) podVolume {
	if facts.Socket == v1alpha1.SocketCSI {
		return csiSockets(map[string]string{plan.CSINamespace: facts.Namespace, plan.CSICluster: facts.Cluster})
	}
	directory := plan.HostSocketDir(facts.Namespace, facts.Cluster)
	if plan.Isolated(facts.Sharing) {
		directory = plan.HostTenantsDir(facts.Namespace, facts.Cluster)
	}
	return podVolume{
		corev1.Volume{Name: plan.SocketVolume, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: directory, Type: new(corev1.HostPathDirectoryOrCreate)},
		}},
		func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == directory },
	}
}

// hostPathRefused returns why the pod's namespace admits no hostPath, where its sockets come by one. A pod with one of its own is
// admitted by an exemption, or not at all.
func hostPathRefused(pod *corev1.Pod, facts Facts) (reason string) {
	level := facts.Admission.Restricted()
	if level == "" || !facts.ByHostPath() || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }) {
		return ""
	}
	return reasons.HostPathForbidden(facts.PodNamespace, level)
}

// ByHostPath is true where the sockets of the machine's nodes come by a hostPath.
func (f Facts) ByHostPath() bool { return f.Node == nil && f.Socket != v1alpha1.SocketCSI }

// SocketVolume is the volume of machineSockets.
func SocketVolume(facts Facts) corev1.Volume { return machineSockets(facts).volume }

// SocketMount is the mount of the machine's sockets in a connected container.
func SocketMount(facts Facts) corev1.VolumeMount {
	mount := corev1.VolumeMount{Name: plan.SocketVolume, MountPath: plan.SocketDir, ReadOnly: true}
	if facts.FolderPerNamespace() {
		mount.SubPath = facts.PodNamespace
	}
	return mount
}

// FolderPerNamespace is true where the volume of sockets holds a folder for each namespace.
func (f Facts) FolderPerNamespace() bool {
	return plan.Isolated(f.Sharing) && f.Socket != v1alpha1.SocketCSI
}

// csiSockets is the directory of sockets from the CSI driver.
func csiSockets(attributes map[string]string) podVolume {
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

// emptyVolume is an emptyDir.
func emptyVolume(name string) podVolume {
	return podVolume{
		corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		func(v corev1.Volume) bool { return v.EmptyDir != nil },
	}
}

// sidecarSockets is the directory with the socket of the sidecar. It is in memory, so that a full or slow disk does not matter.
// Files in it count as memory of the pod, hence the limit.
func sidecarSockets() podVolume {
	volume := emptyVolume(plan.SocketVolume)
	volume.volume.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("1Mi"))}
	return volume
}

// addMounts adds mounts, or returns a reason. Connecting needs write permission on the socket and not on the mount, so all
// mounts are read-only.
func addMounts(c *corev1.Container, mounts []corev1.VolumeMount) (reason string) {
	for _, m := range mounts {
		mounted := false
		for _, have := range c.VolumeMounts {
			switch {
			case have.Name == m.Name && have.MountPath == m.MountPath && have.SubPath == m.SubPath:
				mounted = true
			case overlap(have.MountPath, m.MountPath):
				// A mount above ours may be read-only. The runtime then cannot create our directory in it.
				return reasons.MountOverlap(have.Name, have.MountPath, m.MountPath)
			}
		}
		if !mounted {
			c.VolumeMounts = append(c.VolumeMounts, m)
		}
	}
	return ""
}

// overlap is true where one path equals the other or contains it.
func overlap(a, b string) bool {
	a, b = strings.TrimRight(a, "/")+"/", strings.TrimRight(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}
