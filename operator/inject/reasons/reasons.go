// SPDX-License-Identifier: Apache-2.0

// Package reasons has the messages for a pod or a container that is left alone, and the notes about what the user still has
// to do. Package inject uses them, and inject/policy embeds CEL expressions in the places of names. So the functions only
// join strings, and format nothing.
package reasons

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/plan"
)

// ClusterDeleting is the reason for a cluster that is being deleted.
func ClusterDeleting(cluster string) string {
	return "PeerCacheCluster " + cluster + " is being deleted"
}

// NamespaceNotWatched is the reason for a cluster in a namespace that the operator does not watch.
func NamespaceNotWatched(cluster string) string {
	return "PeerCacheCluster " + cluster + " is in a namespace that the operator does not watch: add the namespace to watchNamespaces of the Helm chart, which sets --watch-namespaces, or use a cluster of one that it watches"
}

// NamespaceNotServed is the reason for a pod of another namespace. It is the same whether the cluster does not exist or does not
// select the namespace: who creates pods elsewhere may not read either.
func NamespaceNotServed(cluster, namespace string) string {
	return "PeerCacheCluster " + cluster + " does not exist, or serves no pods of namespace " + namespace +
		": correct the annotation " + v1alpha1.AnnotationClusterNamespace + ", or have the cluster's owner write " +
		"spec.injection.namespaceSelector: {matchLabels: {" + corev1.LabelMetadataName + ": " + namespace + "}}, or {} for all namespaces"
}

// DriverMissing is the reason where the CSI driver is not installed, or ready on no machine: a pod with its volume would never
// start.
func DriverMissing(cluster string) string {
	return "PeerCacheCluster " + cluster + " gives its sockets to pods by the CSI driver " + plan.CSIDriver +
		" (spec.injection.socket), which is not installed, or ready on no machine: install it (csi.enabled of the Helm chart, or " +
		"config/csi), see why its pods do not start (kubectl describe daemonset peercache-csi), or write injection.socket: HostPath"
}

// PodSecurity names what a namespace enforces at a level of Pod Security.
func PodSecurity(level string) string { return "Pod Security " + quote(level) }

// Constraints names what OpenShift enforces.
func Constraints() string { return "the default SecurityContextConstraints of OpenShift" }

// HostPathForbidden is the reason where the namespace forbids the volume with the sockets of the machine's members.
func HostPathForbidden(namespace, restriction string) string {
	return "namespace " + namespace + " has " + restriction + ", and so no hostPath to the members of the " +
		"machine: write injection.socket: CSI in the cluster, or give the namespace the label " +
		"pod-security.kubernetes.io/enforce: privileged"
}

// PinForbidden is the reason where the namespace forbids a member that pins memory in the pod.
func PinForbidden(namespace, restriction string) string {
	return "namespace " + namespace + " has " + restriction + ", and so not the capability IPC_LOCK that a member " +
		"with RDMA needs in the pod: write injection.mode: Node with injection.socket: CSI in the cluster, or give the namespace the " +
		"label pod-security.kubernetes.io/enforce: privileged"
}

// NoRoom is the reason where the pod does not fit into its namespace with what is added to it.
func NoRoom(obstacle string) string {
	return "the API server would refuse the pod with what PeerCache adds to it: " + obstacle +
		": raise that, or have the cluster add less (injection.mode: Node, or injection.memory and injection.resources)"
}

// GroupUnknown is the reason where the pod names a group that the cluster does not have.
func GroupUnknown(cluster string, groups []string, group string) string {
	return "annotation " + names.AnnotationGroup + " names " + quote(group) + ", but the groups of PeerCacheCluster " +
		cluster + " are " + strings.Join(groups, ", ") + ": name one of these or remove the annotation"
}

// NoEngine is the reason where no container is recognised as an engine.
func NoEngine(containers string) string {
	return "no container starts SGLang or vLLM (" + containers + "): name the right one in the annotation " + names.AnnotationContainer +
		", with " + names.AnnotationEngine + ": vllm for vLLM, or remove the label"
}

// EngineUnknown is the reason where the annotation names no engine.
func EngineUnknown(name string, known []string) string {
	return "annotation " + names.AnnotationEngine + " names " + quote(name) + ", which is not an engine that PeerCache connects: write " +
		strings.Join(known, " or ")
}

// InitContainerNamed is the reason where the annotation names an init container.
func InitContainerNamed(name, containers string) string {
	return "annotation " + names.AnnotationContainer + " names " + quote(name) +
		", an init container, and init containers are never connected: name one of " + containers
}

// ContainerUnknown is the reason where the annotation names no container of the pod.
func ContainerUnknown(name, containers string) string {
	return "annotation " + names.AnnotationContainer + " names " + quote(name) + ", which is not a container of this pod: name one of " + containers
}

// VolumeTaken is the reason where a volume of the user has the name of one that injection adds.
func VolumeTaken(name string) string {
	return "the pod has a volume of its own named " + quote(name) + ": rename it"
}

// ContainerTaken is the reason where a container of the user has the name of one that injection adds.
func ContainerTaken(name string) string {
	return "the pod has a container of its own named " + quote(name) + ": rename it"
}

// OfContainer prefixes the reason or note of one container with its name.
func OfContainer(name, text string) string { return "container " + quote(name) + " " + text }

// PythonPathIgnored is the reason where Python is told to ignore the variable by which it finds the client.
func PythonPathIgnored() string {
	return "starts Python with -I or -E, with which Python ignores " + names.EnvPythonPath + " and finds no client: remove that " +
		"option, or have the package in the image and write injection.client.delivery: Preinstalled in the cluster"
}

// PythonPathReplaced is the reason where a script gives that variable a value of its own.
func PythonPathReplaced() string {
	return "sets " + names.EnvPythonPath + " in its command without the value before, and so finds no client: write " +
		names.EnvPythonPath + "=...:$" + names.EnvPythonPath
}

// VariableTaken is the reason where the user has the variable to which injection moves the user's PYTHONPATH.
func VariableTaken() string {
	return "already uses the variable " + names.EnvUserPythonPath + ", which is needed for its " + names.EnvPythonPath + ": rename it"
}

// MountOverlap is the reason where the user mounts a volume at, above or below a path that injection needs.
func MountOverlap(volume, at, ours string) string {
	return "mounts volume " + quote(volume) + " at " + at + ", which overlaps " + ours + ": mount it elsewhere"
}

// unseen ends a note about flags that an engine may get all the same.
const unseen = "; where the pod cannot show that you did, write the annotation " + names.AnnotationTakesFlags + `: "true"`

// NoteConfigFile is the note where an engine reads flags from a file, which may choose another backend or connector.
func NoteConfigFile(flag, other, variable string) string {
	return "reads flags from a file (" + flag + "), which may choose another " + other + ": write the flags of $" + variable +
		" into that file" + unseen
}

// NoteScript is the note where a script starts an engine, so that the user has to add the flags there.
func NoteScript(engine, variable string) string {
	return "starts " + engine + " in a way to which no flags can be appended: use $" + variable + ", unquoted, in its script" + unseen
}

// NoteImages is the note where the images of a cluster in another namespace are not used.
func NoteImages(cluster string, ignored []string) string {
	return "the pod runs the operator's images, not those of PeerCacheCluster " + cluster + " (" + strings.Join(ignored, ", ") +
		"), which count in the cluster's namespace only: remove them there if they are of another release"
}

func quote(s string) string { return `"` + s + `"` }

// HostMemoryInvalid is the reason where the annotation for the host memory of vLLM has no usable value.
func HostMemoryInvalid(value, least, most string) string {
	return "has annotation " + names.AnnotationVLLMHostMemory + " " + quote(value) + " on its pod: write whole bytes from " + least + " to " + most +
		" with a unit, for example 8Gi, or remove the annotation"
}

// hostMemory names what decides about the host pool of vLLM.
const hostMemory = "spec.engines.vllm.hostMemory of the cluster, or the annotation " + names.AnnotationVLLMHostMemory + " of the pod"

// HostPoolTooLarge is the reason where a memory limit leaves vLLM too little beside its host pool. The container has it, or its pod.
func HostPoolTooLarge(has, limit, pool, need string) string {
	return has + " a memory limit of " + limit + ", and the host pool of " + pool + " that PeerCache adds to vLLM counts against it: raise the limit to " +
		need + ", or lower " + hostMemory
}

// SharedMemoryTooSmall is the reason where a volume of the user at /dev/shm has no room for the host pool.
func SharedMemoryTooSmall(volume, have, pool, need string) string {
	return "mounts volume " + quote(volume) + " with sizeLimit " + have + " at /dev/shm, where the host pool of " + pool + " that PeerCache adds to vLLM " +
		"does not fit: raise its sizeLimit to " + need + ", or lower " + hostMemory
}
