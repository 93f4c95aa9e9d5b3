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
	// While it is smaller, the operator has not seen the latest change yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions:
	// ConfigAccepted is False when the spec cannot be put into effect; its message
	// says what to change.
	// NetworksResolved is False when a network that a rail names does not exist or
	// does not fit the rail.
	// DevicesAvailable is False when a machine does not offer what its nodes
	// request: devices, huge pages, memory, cores; its message names machines.
	// MonitoringReady is False when spec.monitoring asks for kinds of the
	// Prometheus Operator that do not exist.
	// InjectionReady is False when SGLang pods are not connected, because the
	// webhook is missing, disabled or not trusted by the API server, or the API
	// server has no admission policies, or while pods run that were missed.
	// RailsHealthy is False when rails of running nodes are down or missing, or
	// with transport TCP carry no pages; its message names nodes and rails. Unknown
	// while no node that hosts discovery answers; True with reason NotApplicable
	// where pages travel by TCP.
	// NUMAAligned is False when threads or memory of a node are not on the NUMA
	// node of its rails; its message names nodes. Unknown and NotApplicable as above.
	// Progressing is True while nodes are being created, replaced or removed.
	// Degraded is True when a node is broken and does not get well by waiting; its
	// message names the pod.
	// Ready is True when every wanted node serves with the current spec, or, with
	// spec.update.strategy OnDelete, with a former one. Nodes on drained machines
	// are not wanted; its message names these machines.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// groups shows every group with its nodes.
	// +optional
	// +listType=map
	// +listMapKey=name
	Groups []GroupStatus `json:"groups,omitempty"`

	// desiredNodes is how many nodes there should be: over all groups, the
	// Kubernetes nodes that are chosen.
	// +optional
	DesiredNodes int32 `json:"desiredNodes"`

	// drainedNodes is how many nodes are not wanted for now, because their
	// Kubernetes node carries the label peercache.io/drain=true. They are not among
	// desiredNodes.
	// +optional
	DrainedNodes int32 `json:"drainedNodes,omitempty"`

	// readyNodes is how many nodes serve.
	// +optional
	ReadyNodes int32 `json:"readyNodes"`

	// updatedNodes is how many nodes run the current spec.
	// +optional
	UpdatedNodes int32 `json:"updatedNodes"`

	// update is there while nodes run a former spec.
	// +optional
	Update *UpdateStatus `json:"update,omitempty"`

	// capacity is the memory for pages on all nodes that serve, together.
	// +optional
	Capacity resource.Quantity `json:"capacity,omitzero"`

	// nodes is "readyNodes/desiredNodes", for kubectl get.
	// +optional
	Nodes string `json:"nodes,omitempty"`

	// members is how many active members the discovery hosts count, asked from
	// time to time. It keeps its last value when none of them answers.
	// +optional
	Members int32 `json:"members"`

	// rails of all nodes. Ready and down keep their last value while no discovery
	// host answers.
	// +optional
	Rails RailsStatus `json:"rails,omitzero"`

	// numaMismatched is how many nodes have threads or memory that are not on the
	// NUMA node of their rails.
	// +optional
	NUMAMismatched int32 `json:"numaMismatched"`

	// hitRatioPercent is how many of a hundred pages that engines looked up were
	// delivered, over the last 60 to 70 seconds and all nodes. It is absent when none
	// was looked up. A change of less than 5 is shown within a minute, a larger one with the
	// next look at the nodes, at least every half minute.
	// +optional
	HitRatioPercent *int32 `json:"hitRatioPercent,omitempty"`

	// engines is how many SGLang ranks are attached to nodes. It is renewed like
	// hitRatioPercent, and at once when the first comes or the last goes.
	// +optional
	Engines int32 `json:"engines"`

	// missedPods is how many running pods ask for this cluster without having been
	// connected or told why not; see spec.injection.missedPods.
	// +optional
	MissedPods int32 `json:"missedPods,omitempty"`

	// image of the data plane that is being run.
	// +optional
	Image string `json:"image,omitempty"`

	// objects that the operator made on request in this namespace, besides the
	// nodes' own. They are deleted when the spec no longer asks for them.
	// +optional
	// +listType=atomic
	Objects []MadeObject `json:"objects,omitempty"`

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

	// nodes is how many nodes there would be on them.
	// +required
	Nodes int32 `json:"nodes"`

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

	// machines is how many Kubernetes nodes would run a node of the group.
	// +required
	Machines int32 `json:"machines"`

	// rails that each of these nodes would drive.
	// +optional
	// +listType=atomic
	Rails []string `json:"rails,omitempty"`

	// requests of each of these nodes: cores, memory, huge pages, devices.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// GroupStatus is one group with its nodes.
type GroupStatus struct {
	// name of the group, with node pools <pool>-<group>; its DaemonSet is
	// <cluster>-<name>.
	// +required
	Name string `json:"name"`

	// desired is how many nodes the group should have.
	// +required
	Desired int32 `json:"desired"`

	// drained is how many nodes of the group are away, because their Kubernetes
	// node is drained; they are not among desired.
	// +optional
	Drained int32 `json:"drained,omitempty"`

	// ready is how many nodes of the group serve.
	// +required
	Ready int32 `json:"ready"`

	// updated is how many nodes of the group run the current spec.
	// +optional
	Updated int32 `json:"updated"`

	// rails of the group's nodes.
	// +optional
	Rails RailsStatus `json:"rails,omitzero"`
}

// RailsStatus counts rails over nodes: a rail of the spec counts once for every node
// that drives it. All are 0 where pages travel by TCP.
type RailsStatus struct {
	// desired is how many rails the wanted nodes should drive together.
	// +optional
	Desired int32 `json:"desired"`

	// ready is how many rails of running nodes are up.
	// +optional
	Ready int32 `json:"ready"`

	// down is how many rails of running nodes are not up. Those of nodes that do
	// not run are neither ready nor down.
	// +optional
	Down int32 `json:"down"`
}

// The condition types.
const (
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
)
