// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// DiskFoldersName is the name of the init container that gives the folders on drives to the node.
	DiskFoldersName = "disk-folders"

	// diskDir is the parent of the folders at which a node finds its drives: disk0, disk1 and so on.
	diskDir    = "/var/lib/peercache"
	volumeDisk = "disk"

	// The index of a node's drives has 76 bytes for every 64 KiB of them. Each drive has write buffers for two of the longest
	// pages that it stores, and 1 MiB of pages under way to it (docs/disk.md).
	diskIndexEntry = 76
	diskBuffers    = 34 << 20
)

// diskVolume matches the names of diskVolumes. A user may have added other volumes.
var diskVolume = regexp.MustCompile("^" + volumeDisk + `\d+$`)

// disk is where the group's nodes keep pages besides their memory, or nil.
func (g Group) disk(spec v1alpha1.PeerCacheClusterSpec) *v1alpha1.DiskSpec {
	if g.Pool != nil && g.Pool.Disk != nil {
		return g.Pool.Disk
	}
	return spec.Disk
}

// HasDisk is true where the group's nodes keep pages on drives.
func (g Group) HasDisk(spec v1alpha1.PeerCacheClusterSpec) bool { return g.disk(spec) != nil }

// diskVolumes are the drives of the group's nodes. A folder of the machine must exist: a kubelet that created it would let the
// node fill the disk of the machine where a drive is not mounted.
func (g Group) diskVolumes(spec v1alpha1.PeerCacheClusterSpec) []corev1.Volume {
	disk := g.disk(spec)
	if disk == nil {
		return nil
	}
	var sources []corev1.VolumeSource
	for _, folder := range disk.HostPath {
		sources = append(sources, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: string(folder), Type: new(corev1.HostPathDirectory),
		}})
	}
	if claim := disk.VolumeClaim; claim != nil {
		for range claim.Count {
			sources = append(sources, corev1.VolumeSource{Ephemeral: ephemeralVolume(claim, disk.Size)})
		}
	}
	volumes := make([]corev1.Volume, len(sources))
	for i, source := range sources {
		volumes[i] = corev1.Volume{Name: fmt.Sprintf("%s%d", volumeDisk, i), VolumeSource: source}
	}
	return volumes
}

// diskFolders are the folders of machines that diskVolumes gave to the nodes of a DaemonSet.
func diskFolders(daemonSet *appsv1.DaemonSet) []string {
	var folders []string
	for _, volume := range daemonSet.Spec.Template.Spec.Volumes {
		if volume.HostPath != nil && diskVolume.MatchString(volume.Name) {
			folders = append(folders, volume.HostPath.Path)
		}
	}
	return folders
}

// ephemeralVolume is a volume with room for size bytes and a file system: ext4 needs 7 % with its defaults.
func ephemeralVolume(claim *v1alpha1.DiskClaim, size resource.Quantity) *corev1.EphemeralVolumeSource {
	const gibibyte = 1 << 30
	whole := *resource.NewQuantity((size.Value()/9*10+gibibyte-1)/gibibyte*gibibyte, resource.BinarySI)
	return &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &claim.StorageClassName,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: whole}},
		},
	}}
}

// diskMounts mounts a folder of the group's own on each drive, which the kubelet makes: nodes of other groups and clusters may
// use the same drives.
func (g Group) diskMounts(cluster *v1alpha1.PeerCacheCluster) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	for _, volume := range g.diskVolumes(cluster.Spec) {
		mounts = append(mounts, corev1.VolumeMount{
			Name: volume.Name, MountPath: path.Join(diskDir, volume.Name),
			SubPath: strings.Join([]string{cluster.Namespace, cluster.Name, g.Name}, "."),
		})
	}
	return mounts
}

// addDisk gives the node's pod its drives.
func (g Group) addDisk(pod *corev1.PodSpec, cluster *v1alpha1.PeerCacheCluster) {
	mounts := g.diskMounts(cluster)
	if len(mounts) == 0 {
		return
	}
	node := &pod.Containers[0]
	pod.Volumes = append(pod.Volumes, g.diskVolumes(cluster.Spec)...)
	node.VolumeMounts = append(node.VolumeMounts, mounts...)
	pod.InitContainers = append(pod.InitContainers,
		chownContainer(DiskFoldersName, node.Image, node.ImagePullPolicy, chownFolders(g.owner(cluster.Spec), mounts), mounts))
}

// chownFolders returns the command that gives an owner, in the notation of chown, folders of the machine and their files. Root
// owns a folder first, because root has only the right to chown here, and could not read a folder of another user.
func chownFolders(owner string, mounts []corev1.VolumeMount) []string {
	const script = `owner=$1; shift; for folder; do chown 0:0 "$folder"; chown -R "$owner" "$folder"; done`
	command := []string{"sh", "-ec", script, "sh", owner}
	for _, mount := range mounts {
		command = append(command, mount.MountPath)
	}
	return command
}

// diskSettings are the options of the group's nodes about drives.
func (g Group) diskSettings(spec v1alpha1.PeerCacheClusterSpec) []Setting {
	disk := g.disk(spec)
	if disk == nil {
		return nil
	}
	var folders []string
	for _, volume := range g.diskVolumes(spec) {
		folders = append(folders, path.Join(diskDir, volume.Name))
	}
	list := []Setting{
		{Name: "disk-path", Value: strings.Join(folders, ",")},
		{Name: "disk-size", Value: byteSize(disk.Size)},
	}
	if disk.WriteBudget != "" {
		list = append(list, Setting{Name: "disk-write-budget", Value: disk.WriteBudget})
	}
	if io, known := diskEngines[disk.IO]; known {
		list = append(list, Setting{Name: "disk-io", Value: io})
	}
	return list
}

// diskEngines are the names of peercached.
var diskEngines = map[v1alpha1.DiskIO]string{
	v1alpha1.DiskIOAuto: "auto", v1alpha1.DiskIOURing: "io_uring", v1alpha1.DiskIOAIO: "aio", v1alpha1.DiskIOThreads: "threads",
}

// diskMemory is what a node needs for its drives, and for the directory of all drives.
func (g Group) diskMemory(spec v1alpha1.PeerCacheClusterSpec) resource.Quantity {
	bytes := directoryMemory(spec)
	if drives := g.drives(spec); drives > 0 {
		bytes += drives * (wholeMebibytes(g.disk(spec).Size.Value()/meanPage*diskIndexEntry) + diskBuffers)
	}
	return *resource.NewQuantity(bytes, resource.BinarySI)
}

func (g Group) drives(spec v1alpha1.PeerCacheClusterSpec) int64 {
	return int64(len(g.diskVolumes(spec)))
}
