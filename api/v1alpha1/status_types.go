// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PeerCacheClusterStatus is what the operator sees.
type PeerCacheClusterStatus struct {
	// observedGeneration is the metadata.generation that this status speaks about.
	// While it is smaller, the operator has not seen the latest change yet; -1 when it
	// has seen none, so that Flux and kpt wait.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions:
	// ConfigAccepted is False when the spec cannot be put into effect; its message
	// names the field to change.
	// NetworksResolved is False when a network that a rail names does not exist or
	// does not fit the rail.
	// DevicesAvailable is False when a machine does not offer what its members
	// request: devices, huge pages, memory, cores; its message names machines.
	// MonitoringReady is False when spec.monitoring asks for kinds of the
	// Prometheus Operator that do not exist.
	// InjectionReady is False when SGLang pods are not connected, or while pods run
	// that were missed or do not get the flags. Its message has the cause: the
	// webhook is missing, disabled or not trusted by the API server, or the API server
	// has no admission policies.
	// RailsHealthy is False when rails of running members are down or missing, or
	// with transport TCP carry no pages; its message names members and rails. Unknown
	// while no member that hosts discovery answers; True with reason NotApplicable
	// where pages travel by TCP.
	// NUMAAligned is False when threads or memory of a member are not on the NUMA
	// node of its rails; its message names members. Unknown and NotApplicable as above.
	// DisksHealthy is False when drives of running members are off; its message names
	// members and drives. Their other drives serve. Unknown as RailsHealthy; True with
	// reason NotApplicable without spec.disk.
	// EnginesAttached is False when ranks of connected SGLang pods have not attached to
	// a member, minutes after their pod was ready. Its message names pods and machines.
	// Unknown as RailsHealthy; True with reason NotApplicable where each SGLang pod has
	// a member of its own.
	// PeersAuthenticated is False when security.peers is Insecure and there is no TLS.
	// Its message shows the step of a token rotation.
	// Progressing is True while members are being created, replaced or removed.
	// Degraded is True when a member is broken and does not get well by waiting; its
	// message names the pod.
	// Available is True while the cache serves: every group has a ready member, and a
	// discovery host is ready. Members may be missing. It is the one to alert on.
	// Ready is True when every desired member serves with the current spec, or, with
	// spec.update.strategy OnDelete, with a previous one. Members on drained machines
	// are not desired; its message names these machines.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// groups shows every group with its members.
	// +optional
	// +listType=map
	// +listMapKey=name
	Groups []GroupStatus `json:"groups,omitempty"`

	// desiredMembers is how many members there should be: over all groups, the
	// Kubernetes nodes that are chosen.
	// +optional
	DesiredMembers int32 `json:"desiredMembers"`

	// drainedMembers is how many members are away for now, because their
	// Kubernetes node carries the label peercache.io/drain=true. They are not among
	// desiredMembers.
	// +optional
	DrainedMembers int32 `json:"drainedMembers,omitempty"`

	// readyMembers is how many members serve.
	// +optional
	ReadyMembers int32 `json:"readyMembers"`

	// updatedMembers is how many members run the current spec.
	// +optional
	UpdatedMembers int32 `json:"updatedMembers"`

	// update is there while members run a previous spec.
	// +optional
	Update *UpdateStatus `json:"update,omitempty"`

	// capacity is the memory for pages on all members that serve, together.
	// +optional
	Capacity resource.Quantity `json:"capacity,omitzero"`

	// members is "readyMembers/desiredMembers", for kubectl get.
	// +optional
	Members string `json:"members,omitempty"`

	// activeMembers is how many active members the discovery hosts count, asked from
	// time to time. It keeps its last value when none of them answers.
	// +optional
	ActiveMembers int32 `json:"activeMembers"`

	// rails of all members. Ready and down keep their last value while no discovery
	// host answers.
	// +optional
	Rails RailsStatus `json:"rails,omitzero"`

	// disk of all members. It is absent where no member has one, and keeps its last
	// value while no discovery host answers.
	// +optional
	Disk *DiskStatus `json:"disk,omitempty"`

	// numaMismatched is how many members have threads or memory that are not on the
	// NUMA node of their rails.
	// +optional
	NUMAMismatched int32 `json:"numaMismatched"`

	// missedPods is how many running pods ask for this cluster without being connected or
	// having a reason; see spec.injection.missedPods.
	// +optional
	MissedPods int32 `json:"missedPods,omitempty"`

	// image of the data plane that is being run.
	// +optional
	Image string `json:"image,omitempty"`

	// objects that the operator made on request in this namespace, besides the
	// members' own. They are deleted when the spec no longer asks for them.
	// +optional
	// +listType=atomic
	Objects []MadeObject `json:"objects,omitempty"`

	// rotatedToken is the value of the annotation peercache.io/rotate-token for which
	// the token was last replaced: members refuse the previous one.
	// +optional
	RotatedToken string `json:"rotatedToken,omitempty"`

	// plan is what Apply would do, while spec.mode is Plan.
	// +optional
	Plan *PlanStatus `json:"plan,omitempty"`
}

// MadeObject names an object of this namespace.
type MadeObject struct {
	// apiVersion of the object's kind.
	// +required
	APIVersion string `json:"apiVersion"`

	// kind of the object, for example DaemonSet.
	// +required
	Kind string `json:"kind"`

	// name of the object in this namespace.
	// +required
	Name string `json:"name"`
}

// PlanStatus is what would run where.
type PlanStatus struct {
	// machines is how many Kubernetes nodes would take part. Those that are drained
	// are not counted.
	// +required
	Machines int32 `json:"machines"`

	// members is how many members there would be on them.
	// +required
	Members int32 `json:"members"`

	// pool is the memory for pages on all of them together.
	// +required
	Pool resource.Quantity `json:"pool"`

	// groups shows every group.
	// +optional
	// +listType=map
	// +listMapKey=name
	Groups []PlannedGroup `json:"groups,omitempty"`

	// changes lists the objects that would be created, changed or deleted, and for
	// a changed one its first field that differs.
	// +optional
	// +listType=atomic
	Changes []string `json:"changes,omitempty"`
}

// PlannedGroup is one group of a plan.
type PlannedGroup struct {
	// name of the group, as in status.groups.
	// +required
	Name string `json:"name"`

	// machines is how many Kubernetes nodes would run a member of the group.
	// +required
	Machines int32 `json:"machines"`

	// rails that each of these members would drive.
	// +optional
	// +listType=atomic
	Rails []string `json:"rails,omitempty"`

	// requests of each of these members: cores, memory, huge pages, devices.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// GroupStatus is one group with its members.
type GroupStatus struct {
	// name of the group, with node pools <pool>-<group>; its DaemonSet is
	// <cluster>-<name>.
	// +required
	Name string `json:"name"`

	// desired is how many members the group should have.
	// +required
	Desired int32 `json:"desired"`

	// drained is how many members of the group are away, because their Kubernetes
	// node is drained; they are not among desired.
	// +optional
	Drained int32 `json:"drained,omitempty"`

	// ready is how many members of the group serve.
	// +required
	Ready int32 `json:"ready"`

	// updated is how many members of the group run the current spec.
	// +optional
	Updated int32 `json:"updated"`

	// rails of the group's members.
	// +optional
	Rails RailsStatus `json:"rails,omitzero"`
}

// RailsStatus counts rails over members: a rail of the spec counts once for every member
// that drives it. All are 0 where pages travel by TCP.
type RailsStatus struct {
	// desired is how many rails the desired members should drive together.
	// +optional
	Desired int32 `json:"desired"`

	// ready is how many rails of running members are up.
	// +optional
	Ready int32 `json:"ready"`

	// down is how many rails of running members are not up. Those of members that do
	// not run are neither ready nor down.
	// +optional
	Down int32 `json:"down"`
}

// DiskStatus sums up the drives of members.
type DiskStatus struct {
	// capacity is the room for pages on the drives that are on, together.
	// +required
	Capacity resource.Quantity `json:"capacity"`

	// used is how much of it pages take. It is written when it has changed by a
	// twentieth of capacity.
	// +required
	Used resource.Quantity `json:"used"`

	// off is how many drives are off.
	// +required
	Off int32 `json:"off"`

	// writeBudgetSpent is how much of a day's writeBudget members have spent,
	// in percent. At 100 no page is written. The field changes in steps of ten
	// or more. It is absent where nothing bounds writes.
	// +optional
	WriteBudgetSpent *int32 `json:"writeBudgetSpent,omitempty"`
}

// The condition types.
const (
	ConditionAvailable      = "Available"
	ConditionReady          = "Ready"
	ConditionProgressing    = "Progressing"
	ConditionDegraded       = "Degraded"
	ConditionConfigAccepted = "ConfigAccepted"

	ConditionNetworksResolved = "NetworksResolved"
	ConditionDevicesAvailable = "DevicesAvailable"
	ConditionMonitoringReady  = "MonitoringReady"
	ConditionInjectionReady   = "InjectionReady"
	ConditionRailsHealthy     = "RailsHealthy"
	ConditionNUMAAligned      = "NUMAAligned"
	ConditionDisksHealthy     = "DisksHealthy"
	ConditionEnginesAttached  = "EnginesAttached"

	ConditionPeersAuthenticated = "PeersAuthenticated"
)
