// SPDX-License-Identifier: Apache-2.0

// Package inject connects SGLang pods to a PeerCacheCluster.
//
// A pod asks for it with the label peercache.io/inject: <cluster>. The heart is a pure function,
//
//	result := inject.Inject(pod, facts)
//
// which returns a changed copy of the pod, or a copy that differs only in an annotation that says why it
// was left alone. The webhook around it (SetupWithManager) gathers the facts and never refuses a pod.
//
// A container that runs SGLang gets
//   - the Python client, mounted and put on PYTHONPATH: from an emptyDir that an init container fills, or from
//     the client image itself, or not at all where its own image has it;
//   - its node, by the mode of the cluster: the read-only directory with the sockets of the machine's nodes; or
//     that of a native sidecar, which is added to the pod; or what a node inside SGLang itself needs;
//   - the HiCache flags, each only where the user has not given it.
//
// Flags can only be appended to a plain argument list. A container that starts SGLang through a shell gets
// them in the variable PEERCACHE_SGLANG_ARGS instead, and its script uses them like this, without quotes:
//
//	exec python3 -m sglang.launch_server $PEERCACHE_SGLANG_ARGS --model-path "$MODEL"
//
// The value has no blanks inside a flag, no quotes around one and no character that a shell expands in an
// unquoted variable, so word splitting gives exactly the intended arguments. It is not meant for eval,
// which would take away the quotes inside the JSON. SGLang lets the last of two equal flags win, so flags
// that come after the variable override it.
//
// Injection is idempotent (Inject of an injected pod changes nothing) and takes nothing away: whatever the
// user wrote is still there afterwards, in the same order. Files: container.go finds the SGLang containers,
// argv.go reads their arguments, flags.go and extraconfig.go decide what is missing, client.go delivers the client,
// link.go chooses the node (sidecar.go, embedded.go, networks.go), env.go, volumes.go and pod.go write it,
// webhook.go is the admission handler.
package inject
