// SPDX-License-Identifier: Apache-2.0

// Package names holds the names of an injected pod: annotations, environment variables, volumes and paths.
package names

// The annotations that a user writes on a pod. The label that asks for injection and the annotation with the cluster's
// namespace are in api/v1alpha1.
const (
	// AnnotationContainer names the container of the engine, or several separated by commas, where injection does not recognise the
	// command.
	AnnotationContainer = "peercache.io/container"
	// AnnotationEngine is the engine of these containers, "sglang" or "vllm", where neither command nor image shows it.
	AnnotationEngine = "peercache.io/engine"
	// AnnotationVLLMHostMemory is the host memory of each vLLM container of the pod, instead of the cluster's
	// spec.engines.vllm.hostMemory.
	AnnotationVLLMHostMemory = "peercache.io/vllm-host-memory"
	// AnnotationGroup chooses the group of the node that serves the pod, where a machine runs several.
	AnnotationGroup = "peercache.io/group"
	// AnnotationTakesFlags is "true" where the engine gets the flags in a way that injection cannot see: by a script of the image, or
	// by the file of --config.
	AnnotationTakesFlags = "peercache.io/takes-flags"
)

// The annotations that injection writes on a pod.
const (
	// AnnotationInjected holds the name of the cluster that the pod is connected to. AnnotationPartly holds it instead where a
	// container has the client and the socket, but is not seen to get the flags, without which its engine uses neither.
	AnnotationInjected = "peercache.io/injected"
	AnnotationPartly   = "peercache.io/partly"
	// AnnotationContainers is how each container got the flags: "name=flags" or "name=environment", separated by
	// commas.
	AnnotationContainers = "peercache.io/injected-containers"
	// AnnotationSkipReason is why the pod, or one of its engines' containers, was left alone.
	AnnotationSkipReason = "peercache.io/skip-reason"
	// AnnotationHoldout is "true" where the engine runs without cache, so that others can be compared with it, and "false" where it
	// is one of the others. A user may write it, too.
	AnnotationHoldout = "peercache.io/holdout"
	HoldoutTrue       = "true"
	HoldoutFalse      = "false"
	// AnnotationNote is what the user still has to do.
	AnnotationNote = "peercache.io/inject-note"
)

// The names and paths inside an injected pod.
const (
	Client = "peercache-client" // the volume and the init container
	Shm    = "peercache-shm"    // the volume at /dev/shm of a vLLM container

	ClientDir     = "/opt/peercache/python" // in the client image and in the SGLang container
	ClientCopyDir = "/peercache"            // where the init container mounts the volume

	EnvPythonPath     = "PYTHONPATH"
	EnvUserPythonPath = "PEERCACHE_USER_PYTHONPATH"
	EnvSocket         = "PEERCACHE_SOCKET"
	EnvNUMASockets    = "PEERCACHE_NUMA_SOCKETS"
	EnvTagScope       = "PEERCACHE_TAG_SCOPE"
	EnvHoldout        = "PEERCACHE_HOLDOUT"
	EnvFlags          = "PEERCACHE_SGLANG_ARGS"
	EnvVLLMFlags      = "PEERCACHE_VLLM_ARGS"
	EnvPodNamespace   = "PEERCACHE_POD_NAMESPACE"
	EnvPodName        = "PEERCACHE_POD_NAME"
	EnvNodeID         = "PEERCACHE_NODE_ID"
)
