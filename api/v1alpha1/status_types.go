// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PeerCacheClusterStatus is what the operator sees.
type PeerCacheClusterStatus struct {
	// observedGeneration is the metadata.generation that this status speaks about.
	// While it is smaller, the operator has not seen the latest change yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions:
	// ConfigAccepted is False when the spec cannot be put into effect; its message
	// says what to change.
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
}

// The condition types.
const (
	ConditionReady          = "Ready"
	ConditionProgressing    = "Progressing"
	ConditionDegraded       = "Degraded"
	ConditionConfigAccepted = "ConfigAccepted"
)
