// SPDX-License-Identifier: Apache-2.0

// Package watchdog finds SGLang pods that injection has missed: they have the label that asks for a PeerCacheCluster, but
// neither the annotation of a connected pod nor a reason. That happens when the API server does not reach the webhook, which
// never blocks a pod, and when a pod gets its label after its creation.
//
//	w, err := watchdog.New(mgr, options)
//	missed, err := w.Missed(ctx, cluster)               // from a cache
//	evicted, obstacle := w.RecreateOne(ctx, cluster, missed)
//
// The cache keeps only some metadata of pods with the label, and excludes finished pods. A pod is evicted only when its
// successor would be connected, according to the function that the webhook uses. When the successor is missed as well, the
// webhook is at fault, and the owner's pods are left alone for a while.
package watchdog
