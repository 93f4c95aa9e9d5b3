// SPDX-License-Identifier: Apache-2.0

package inject

// Annotations that a user writes on a pod. The label that asks for injection and the annotation that names
// the cluster's namespace are in api/v1alpha1.
const (
	// AnnotationContainer names the SGLang container, or several separated by commas, where it cannot be
	// recognised by its command.
	AnnotationContainer = "peercache.io/container"
	// AnnotationGroup chooses the group whose node serves the pod, where a machine runs several.
	AnnotationGroup = "peercache.io/group"
)

// Annotations that injection writes on a pod.
const (
	// AnnotationInjected holds the name of the cluster that the pod is connected to.
	AnnotationInjected = "peercache.io/injected"
	// AnnotationContainers says how each container was given the flags: "name=flags" or
	// "name=environment", separated by commas.
	AnnotationContainers = "peercache.io/injected-containers"
	// AnnotationSkipReason says why the pod, or one of its SGLang containers, was left alone.
	AnnotationSkipReason = "peercache.io/skip-reason"
	// AnnotationNote says what the user still has to do.
	AnnotationNote = "peercache.io/inject-note"
)

// Names and places inside an injected pod.
const (
	clientName = "peercache-client" // volume and init container

	clientDir     = "/opt/peercache/python" // in the client image and in the SGLang container
	clientCopyDir = "/peercache"            // the volume as the init container sees it

	envPythonPath     = "PYTHONPATH"
	envUserPythonPath = "PEERCACHE_USER_PYTHONPATH"
	envSocket         = "PEERCACHE_SOCKET"
	envFlags          = "PEERCACHE_SGLANG_ARGS"
	envPodNamespace   = "PEERCACHE_POD_NAMESPACE"
	envPodName        = "PEERCACHE_POD_NAME"
	envNodeID         = "PEERCACHE_NODE_ID"
)

// defaultContainer is the container name that is taken for SGLang without looking at its command.
const defaultContainer = "sglang"
