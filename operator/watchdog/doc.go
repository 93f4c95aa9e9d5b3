// SPDX-License-Identifier: Apache-2.0

// Package watchdog finds SGLang pods that injection has missed: they carry the label that asks for a
// PeerCacheCluster, and neither were connected nor told why not. That happens when the webhook is not reached while
// a pod is created, since it never holds one back, and when a pod gets its label later.
//
//	dog, err := watchdog.New(mgr, options)
//	missed, err := dog.Missed(ctx, cluster)       // from a cache; costs as much as there are missed pods
//	done, err := dog.RecreateOne(ctx, cluster, missed)
//
// Of all pods with the label only a few metadata are kept, and finished pods are not even sent. A pod is evicted only
// when it is certain to help: what it would become is computed first, by the same function as the webhook's. When a
// pod's successor is missed as well, the webhook is at fault, and the owner's pods are left alone for a while.
package watchdog
