// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/plan"
)

// addVolumes gives the pod the client's volume and the socket directory, or says why it cannot.
func addVolumes(pod *corev1.Pod, facts Facts) (reason string) {
	// A directory that does not exist yet is created, so that an SGLang pod that starts before the node
	// does is not held back; the store connects when the socket appears.
	directory := plan.HostSocketDir(facts.Namespace, facts.Cluster)
	for _, v := range []struct {
		volume corev1.Volume
		ours   func(corev1.Volume) bool
	}{
		{
			corev1.Volume{Name: clientName, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			func(v corev1.Volume) bool { return v.EmptyDir != nil },
		},
		{
			corev1.Volume{Name: socketVolume, VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: directory, Type: new(corev1.HostPathDirectoryOrCreate)},
			}},
			func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == directory },
		},
	} {
		i := slices.IndexFunc(pod.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == v.volume.Name })
		switch {
		case i < 0:
			pod.Spec.Volumes = append(pod.Spec.Volumes, v.volume)
		case !v.ours(pod.Spec.Volumes[i]):
			return "the pod has a volume of its own named " + quote(v.volume.Name) + ": rename it"
		}
	}
	return ""
}

// addMounts mounts both volumes, or says why they cannot be mounted. Connecting to a socket needs write
// permission on the socket, not on the mount, so both are read-only.
func addMounts(c *corev1.Container) (reason string) {
	for _, m := range []corev1.VolumeMount{
		{Name: clientName, MountPath: clientDir, ReadOnly: true},
		{Name: socketVolume, MountPath: plan.SocketDir, ReadOnly: true},
	} {
		mounted := false
		for _, have := range c.VolumeMounts {
			switch {
			case have.Name == m.Name && have.MountPath == m.MountPath:
				mounted = true
			case overlap(have.MountPath, m.MountPath):
				// A mount above ours may be read-only, and then the runtime cannot create our directory in it.
				return "mounts volume " + quote(have.Name) + " at " + have.MountPath + ", which overlaps " +
					m.MountPath + ": mount it elsewhere"
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
