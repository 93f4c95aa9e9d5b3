// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// RDMASpec is how pages travel over RDMA.
type RDMASpec struct {
	// trafficClass of RoCE packets, by which switches sort them: DSCP * 4, for example
	// 104 for DSCP 26. All members have the same. Give its priority a part of each port
	// by ETS, on machines and switches: see docs/rdma.md. 0 when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	TrafficClass *int32 `json:"trafficClass,omitempty"`

	// serviceLevel of InfiniBand packets, or the priority of RoCE packets. 0 when left
	// out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	ServiceLevel *int32 `json:"serviceLevel,omitempty"`

	// partitionKeyIndex is the index of the partition key in the table of the port
	// (InfiniBand). 0 when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	PartitionKeyIndex *int32 `json:"partitionKeyIndex,omitempty"`

	// gid is the address that a RoCE port speaks with, where its interface has several:
	// IPv4, IPv6, an address, or a subnet such as 10.1.0.0/16. Left out: the member
	// chooses (docs/rdma.md). Indexes differ between machines, so none is taken.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self in ['IPv4', 'IPv6'] || isIP(self) || isCIDR(self)",message="rdma.gid must be IPv4, IPv6, an address or a subnet: write for example 10.1.0.0/16"
	GID string `json:"gid,omitempty"`

	// mtu is the largest payload of an RDMA packet in bytes: 256, 512, 1024, 2048 or
	// 4096. Left out: what both ports have.
	// +optional
	// +kubebuilder:validation:Enum=256;512;1024;2048;4096
	MTU *int32 `json:"mtu,omitempty"`

	// onDemandPaging lets the device page registered memory in instead of locking it, if
	// the device can. It is slower when a page is first read. Disabled when left out.
	// +optional
	// +kubebuilder:validation:Enum=Enabled;Disabled
	OnDemandPaging Switch `json:"onDemandPaging,omitempty"`
}

// Switch turns something on or off.
type Switch string

// The positions.
const (
	SwitchEnabled  Switch = "Enabled"
	SwitchDisabled Switch = "Disabled"
)
