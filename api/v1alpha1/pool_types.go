// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// NodePool is one kind of machine. What it leaves out is as in spec.
type NodePool struct {
	// name of the pool, unique in the cluster, for example gpu.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a node pool's name may hold lower-case letters, digits and '-' and must begin and end with a letter or digit: write for example gpu"
	Name string `json:"name"`

	// selector lists labels that a Kubernetes node of this pool carries, besides
	// those of spec.nodes.selector.
	// Example: {"nvidia.com/gpu.present": "true"}
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Selector map[string]string `json:"selector"`

	// tolerations of this pool's members, besides those of spec.nodes.tolerations.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// rails that the machines of this pool have, by name. Left out: none; the
	// members then use TCP.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=20
	Rails []string `json:"rails,omitempty"`

	// memory of this pool's members. Left out: spec.memory.
	// +optional
	Memory *MemorySpec `json:"memory,omitempty"`

	// disk of this pool's members. Left out: spec.disk. Where some machines have no
	// drives, leave spec.disk out and write it in the pools that have.
	// +optional
	Disk *DiskSpec `json:"disk,omitempty"`

	// resources of this pool's members. Left out: spec.resources.
	// +optional
	Resources *ResourcesSpec `json:"resources,omitempty"`
}
