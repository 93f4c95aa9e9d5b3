// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpdateSpec is how running nodes get a changed spec.
// +kubebuilder:validation:XValidation:rule="self.strategy != 'OnDelete' || (!has(self.maxUnavailable) && !has(self.maxHitRatioDrop))",message="update.maxUnavailable and update.maxHitRatioDrop are about strategies Drain and RollingUpdate: with OnDelete, who deletes the pods decides; remove them, or write strategy: RollingUpdate"
// +kubebuilder:validation:XValidation:rule="self.strategy != 'Drain' || !has(self.drainBudget) || quantity(string(self.drainBudget)).compareTo(quantity('0')) > 0",message="update.strategy Drain has pages taken over, and update.drainBudget 0 none: write a budget such as 8Gi, or strategy: RollingUpdate to roll without"
type UpdateSpec struct {
	// strategy: RollingUpdate replaces maxUnavailable nodes of each group at a time,
	// and the next ones when these serve; what a node that leaves has taken over is
	// up to drainBudget. Drain is the same, and is not accepted with a drainBudget
	// of 0, so that no node goes without having its pages taken over. OnDelete
	// replaces a node when somebody deletes its pod, and not before.
	// +optional
	// +kubebuilder:default=RollingUpdate
	Strategy UpdateStrategy `json:"strategy,omitempty"`

	// maxUnavailable is how many nodes of a group may be away at a time: a number,
	// or a percentage of the group's nodes, rounded up. 1 when left out, because
	// pages that are on a node go with it.
	// Example: 10%
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^([1-9][0-9]?|100)%$') : self >= 1",message="maxUnavailable must be a number from 1, such as 2, or a percentage from 1% to 100%, such as 10%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxHitRatioDrop pauses a roll while the hit ratio of the last minute, or of the
	// last five seconds, is by more than this below what status.hitRatioPercent was
	// when the update began. The roll goes on when engines have filled the nodes
	// again. Left out: it is not looked at.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	MaxHitRatioDrop *int32 `json:"maxHitRatioDrop,omitempty"`

	// drainBudget is how much of its pages a node that leaves has taken over by the
	// others at most, those first that were read most, up to 64Ti. It has 10 s for
	// that; what is not taken over by then is lost with the node. 8Gi when left out;
	// 0 takes nothing over. Nodes read it when they start, so a change restarts them.
	// Example: 32Gi
	// +optional
	// +kubebuilder:validation:XValidation:rule="[quantity(string(self))].all(q, q.compareTo(quantity('0')) >= 0 && q.compareTo(quantity('64Ti')) <= 0 && q.isInteger())",message="update.drainBudget must lie between 0 and 64Ti: write whole bytes with a unit, for example 32Gi"
	DrainBudget *resource.Quantity `json:"drainBudget,omitempty"`
}

// UpdateStrategy says who decides when a node is replaced.
// +kubebuilder:validation:Enum=RollingUpdate;Drain;OnDelete
type UpdateStrategy string

// The strategies.
const (
	UpdateRolling  UpdateStrategy = "RollingUpdate"
	UpdateDrain    UpdateStrategy = "Drain"
	UpdateOnDelete UpdateStrategy = "OnDelete"
)

// UpdateStatus is an update under way.
type UpdateStatus struct {
	// hitRatioBefore is status.hitRatioPercent of when it began; absent when nobody
	// looked up pages then.
	// +optional
	HitRatioBefore *int32 `json:"hitRatioBefore,omitempty"`

	// state is Paused while no further node is replaced, until the hit ratio is back
	// (spec.update.maxHitRatioDrop), and else Proceeding.
	// +required
	State UpdateState `json:"state"`
}

// UpdateState says whether nodes are being replaced.
// +kubebuilder:validation:Enum=Proceeding;Paused
type UpdateState string

// The states.
const (
	UpdateProceeding UpdateState = "Proceeding"
	UpdatePaused     UpdateState = "Paused"
)
