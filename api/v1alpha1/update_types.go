// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpdateSpec is how running members get a changed spec.
// +kubebuilder:validation:XValidation:rule="self.strategy != 'OnDelete' || (!has(self.maxUnavailable) && !has(self.maxHitRatioDrop))",message="update.maxUnavailable and update.maxHitRatioDrop are about strategies RollingUpdate and InPlace: with OnDelete, who deletes the pods decides; remove them, or write strategy: InPlace"
type UpdateSpec struct {
	// strategy: InPlace changes the image inside the running pods, maxUnavailable members
	// of each group at a time. It continues when these serve. A member that restarts so,
	// or crashes, keeps its pages, except with hugePages 1Gi. A change of more than images
	// needs new pods, which have its pages where memory.hostPath is set. It is rolled out
	// like RollingUpdate, which replaces pods for each change. OnDelete replaces a member
	// when its pod is deleted, and not before. When the pod of a member ends, other
	// members take over its pages, up to drainBudget.
	// +optional
	// +kubebuilder:default=InPlace
	Strategy UpdateStrategy `json:"strategy,omitempty"`

	// maxUnavailable is how many members of a group may be away at a time: a number,
	// or a percentage of the group's members, rounded up. 10% when left out. Members
	// on machines that Kubernetes marks as not ready do not use it up, as long as they
	// are no more than it allows. One dead machine does not stop an update. An outage
	// of many does.
	// Example: 10%
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^([1-9][0-9]?|100)%$') : self >= 1",message="maxUnavailable must be a number from 1, such as 2, or a percentage from 1% to 100%, such as 10%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxHitRatioDrop pauses a rollout while the hit ratio is by more than this below what
	// it was when the update began. The ratio is that of the last minute, or of the last
	// five seconds. The rollout continues when engines have filled the members again. Left
	// out: it does not pause.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	MaxHitRatioDrop *int32 `json:"maxHitRatioDrop,omitempty"`

	// drainBudget limits the bytes of pages that other members take over from a leaving
	// member. The most-read pages go first. At most 64Ti. It has 10 s for that; pages
	// that are not taken over by then are lost with the member. 8Gi when left out; 0:
	// none are taken over. Members read it when they start, so a change restarts them.
	// Example: 32Gi
	// +optional
	// +kubebuilder:validation:XValidation:rule="[quantity(string(self))].all(q, q.compareTo(quantity('0')) >= 0 && q.compareTo(quantity('64Ti')) <= 0 && q.isInteger())",message="update.drainBudget must lie between 0 and 64Ti: write whole bytes with a unit, for example 32Gi"
	DrainBudget *resource.Quantity `json:"drainBudget,omitempty"`
}

// UpdateStrategy is how members are replaced.
// +kubebuilder:validation:Enum=RollingUpdate;InPlace;OnDelete
type UpdateStrategy string

// The strategies.
const (
	UpdateRolling  UpdateStrategy = "RollingUpdate"
	UpdateInPlace  UpdateStrategy = "InPlace"
	UpdateOnDelete UpdateStrategy = "OnDelete"
)

// UpdateStatus is an update under way.
type UpdateStatus struct {
	// hitRatioBefore is how many of a hundred pages that engines looked up were delivered
	// in the minute before it began. It is absent when no engine looked up pages then.
	// +optional
	HitRatioBefore *int32 `json:"hitRatioBefore,omitempty"`

	// state is Paused while no further member is replaced, until the hit ratio is back
	// (spec.update.maxHitRatioDrop), and else Proceeding.
	// +required
	State UpdateState `json:"state"`
}

// UpdateState is whether members are being replaced.
// +kubebuilder:validation:Enum=Proceeding;Paused
type UpdateState string

// The states.
const (
	UpdateProceeding UpdateState = "Proceeding"
	UpdatePaused     UpdateState = "Paused"
)
