// SPDX-License-Identifier: Apache-2.0

// Package inject connects pods of SGLang and vLLM to a PeerCacheCluster.
//
// A pod asks for the connection with the label peercache.io/inject: <cluster>. The core is a pure function,
//
//	result := inject.Inject(pod, facts)
//
// It returns a changed copy of the pod. Where it leaves the pod alone, the copy differs only in an annotation with the
// reason. The webhook around it (SetupWithManager) gathers the facts and never refuses a pod.
//
// A container that runs one of these engines gets
//   - the Python client, mounted and put on PYTHONPATH: from an emptyDir that an init container fills, or from
//     the client image itself; its own image may have the client instead;
//   - access to its node, by the mode of the cluster: the read-only directory with the sockets of the machine's nodes;
//     the socket directory of a native sidecar, which is added to the pod; or the resources for a node inside SGLang;
//   - the flags of its engine, each only where the user has not given it: of HiCache for SGLang, of a KV connector for vLLM;
//   - a /dev/shm with room for the host pool of vLLM.
//
// Flags can be appended only to a plain argument list. A container that starts its engine through a shell gets the flags in
// the variable PEERCACHE_SGLANG_ARGS or PEERCACHE_VLLM_ARGS instead. Its script uses the variable without quotes:
//
//	exec python3 -m sglang.launch_server $PEERCACHE_SGLANG_ARGS --model-path "$MODEL"
//
// The value has no blanks inside a flag, no quotes around one and no character that a shell expands in an unquoted
// variable, so word splitting gives exactly the intended arguments. The value is not for eval, which would remove the
// quotes inside the JSON. Both engines use the last of two equal flags, so flags after the variable override it.
//
// Injection is idempotent: Inject of an injected pod changes nothing. It removes nothing: whatever the user wrote stays, in
// the same order.
//
// Files: container.go finds the containers of engines; client.go delivers the client; link.go chooses the node (sidecar.go,
// embedded.go, networks.go); shared.go makes room in /dev/shm; env.go, volumes.go and pod.go write the changes; webhook.go is
// the admission handler. Packages: engines has the interface of an engine, and below it sglang and vllm decide about their
// command lines; names has the annotations, variables and paths; reasons has the messages that all engines share; policy
// expresses Inject as an admission policy.
package inject
