// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the Kubernetes API of PeerCache: the PeerCacheCluster kind of group peercache.io.
//
// One PeerCacheCluster describes one peer-to-peer KV cache: which Kubernetes nodes take part, how much
// memory each gives, over which network ports pages travel, and which SGLang pods may use it. The comments
// on the fields are what `kubectl explain pcc` prints, and the validation markers are what the API server
// enforces, so this package is the reference of the API.
//
// After changing a type run `make generate`.
//
// +kubebuilder:object:generate=true
// +groupName=peercache.io
package v1alpha1
