// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// DiskSpec is the local drives on which a member keeps pages, besides its memory.
// docs/disk.md says which drives suit, and what is lost when.
//
// +kubebuilder:validation:XValidation:rule="has(self.hostPath) != has(self.volumeClaim)",message="disk is in folders of the machines, or on volumes that Kubernetes makes: write hostPath: [/mnt/nvme0/peercache], or volumeClaim: {storageClassName: local-nvme}, and remove the other"
type DiskSpec struct {
	// hostPath lists folders of the machine, one on each drive. Each must exist, on a
	// file system of its own (ext4 or xfs); a member does not start where one is
	// missing. Name a folder on the drive, not the one at which it is mounted. Where
	// the drive is not mounted, the folder is then missing, and the machine's own disk
	// is not filled. Each member makes a folder of its own below. Its pages outlive
	// the pod, and stay on the machine when this object is deleted. A change that
	// takes a folder away waits for the annotation peercache.io/confirm-loss.
	// Example: ["/mnt/nvme0/peercache", "/mnt/nvme1/peercache"]
	// +optional
	// +unionMember
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	HostPath []DiskFolder `json:"hostPath,omitempty"`

	// volumeClaim makes volumes for each member's pod, which are deleted with the
	// pod. So their pages outlive a restart of the container, but not a change that
	// replaces pods: with update.strategy InPlace a new image keeps them. A volume is
	// a ninth larger than size, for its file system, in whole Gi.
	// +optional
	// +unionMember
	VolumeClaim *DiskClaim `json:"volumeClaim,omitempty"`

	// size is what each member takes of each folder or volume, from 1Gi to 64Ti, for
	// example 500Gi. It is reserved when the member starts. A machine that runs
	// several groups gives it once per group. Each member needs memory for its
	// index, 76 bytes for every 64Ki, and for records in the directory, 94 bytes.
	// The operator adds both to what it requests. Records are spread over all
	// members, so those without a disk have them as well.
	// +required
	// +kubebuilder:validation:XValidation:rule="[quantity(string(self))].all(q, q.compareTo(quantity('1Gi')) >= 0 && q.compareTo(quantity('64Ti')) <= 0 && q.isInteger())",message="disk.size must lie between 1Gi and 64Ti: write whole bytes with a unit, for example 500Gi"
	Size resource.Quantity `json:"size"`

	// writeBudget is how much a member may write in a day to all its drives together,
	// so that they last. Write how often it may write them, such as "1" or "0.3", up
	// to "1000". Or write bytes, such as 2Ti, or unlimited. When it is spent, fewer
	// pages are written.
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self == 'unlimited' || self.matches('^[1-9][0-9]{0,6}(Mi|Gi|Ti)$') || (self.matches('^[0-9]{1,4}([.][0-9]{1,3})?$') && double(self) > 0.0 && double(self) <= 1000.0)",message="disk.writeBudget must be how often a day the drives may be written, up to 1000, or bytes a day, or unlimited: write for example \"1\", \"0.3\", 2Ti or unlimited"
	WriteBudget string `json:"writeBudget,omitempty"`

	// io is how a member reads and writes. Auto takes the first of IOURing, AIO and
	// Threads that works in the pod; each other value takes that one, or fails at the start.
	// +optional
	// +kubebuilder:default=Auto
	IO DiskIO `json:"io,omitempty"`
}

// DiskFolder is an absolute path on a machine.
//
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_][-A-Za-z0-9_.@:+=]*)+$')",message="disk.hostPath must hold absolute paths of folders, without commas, spaces or '..', and not / itself: write for example /mnt/nvme0/peercache"
type DiskFolder string

// DiskClaim is a generic ephemeral volume for each drive of a member.
type DiskClaim struct {
	// storageClassName is a class of local drives, such as one of TopoLVM, of
	// OpenEBS LocalPV or of the static provisioner of local volumes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="disk.volumeClaim.storageClassName must be the name of a StorageClass: write for example local-nvme"
	StorageClassName string `json:"storageClassName"`

	// count is how many such volumes each member has, one on each drive.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Count int32 `json:"count,omitempty"`
}

// DiskIO is how a member reads and writes its drives.
// +kubebuilder:validation:Enum=Auto;IOURing;AIO;Threads
type DiskIO string

// The ways to read and write.
const (
	DiskIOAuto    DiskIO = "Auto"
	DiskIOURing   DiskIO = "IOURing"
	DiskIOAIO     DiskIO = "AIO"
	DiskIOThreads DiskIO = "Threads"
)
