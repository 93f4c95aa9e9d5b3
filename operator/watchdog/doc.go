// SPDX-License-Identifier: Apache-2.0

// Package watchdog finds SGLang pods that run without their cache. Injection has missed a pod that has the label that asks for
// a PeerCacheCluster, but neither the annotation of a connected pod nor a reason. A pod is partly connected where SGLang is not
// seen to get the flags. Pods are missed when the API server does not reach the webhook, which never blocks
// a pod, and when they get the label after their creation.
//
//	w, err := watchdog.New(mgr, options)
//	missed, err := w.Missed(ctx, cluster)               // from a cache, as w.Partly
//	evicted, obstacle := w.RecreateOne(ctx, cluster, missed)
//
// The cache keeps only some metadata of pods with the label, and excludes finished pods. A pod is evicted only when its
// successor would be connected, according to the function that the webhook uses. When the successor is missed as well, the
// webhook is at fault, and the owner's pods are left alone for a while.
package watchdog
