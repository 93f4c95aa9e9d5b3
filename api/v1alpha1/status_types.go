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
	// webhook is missing, disabled or not trusted by the API server.
	// Progressing is True while nodes are being created, replaced or removed.
	// Degraded is True when a node is broken and does not get well by waiting; its
	// message names the pod.
	// Ready is True when every wanted node serves with the current spec.
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

	// readyNodes is how many nodes serve.
	// +optional
	ReadyNodes int32 `json:"readyNodes"`

	// updatedNodes is how many nodes run the current spec.
	// +optional
	UpdatedNodes int32 `json:"updatedNodes"`

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
	// machines is how many Kubernetes nodes would take part.
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

	// ready is how many nodes of the group serve.
	// +required
	Ready int32 `json:"ready"`

	// updated is how many nodes of the group run the current spec.
	// +optional
	Updated int32 `json:"updated"`
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
)
