// SPDX-License-Identifier: Apache-2.0

// Package crd holds the CustomResourceDefinition for programs that look into it without an API server.
package crd

import _ "embed" // for the file

// PeerCacheClusters is the CustomResourceDefinition of the kind PeerCacheCluster, as YAML.
//
//go:embed peercache.io_peercacheclusters.yaml
var PeerCacheClusters []byte
