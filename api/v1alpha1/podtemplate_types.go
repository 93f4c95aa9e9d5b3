// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// PodTemplate is merged into the pod template that the operator writes for the members.
type PodTemplate struct {
	// metadata is added to the pods: labels for cost accounting or network
	// policies, annotations for other controllers.
	// +optional
	Metadata PodTemplateMetadata `json:"metadata,omitzero"`

	// spec is a strategic merge patch of a pod's spec, as in `kubectl patch`. What it
	// names replaces what the operator writes. Lists are merged by their keys, and
	// {$patch: delete} removes an element. The container is named peercached. Its
	// variables PEERCACHE_* cannot be changed, nor its command and args: its options
	// are in extraConfig and in the other fields. Nor can it have envFrom. Condition
	// ConfigAccepted refuses all of these.
	// Example: {"containers": [{"name": "peercached", "env": [{"name": "TZ", "value": "UTC"}]}]}
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// PodTemplateMetadata is what may be added to the metadata of pods.
type PodTemplateMetadata struct {
	// labels to add. Those that the operator sets itself cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`

	// annotations to add. Those that the operator sets itself cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}
