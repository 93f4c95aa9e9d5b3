// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"strings"

	"github.com/peercache/peercache/operator/plan"
)

// What a pod or one of its containers is told when it is left alone, and what is left to the user. The texts stand
// here because two speak them: Inject, and the admission policy, which puts CEL expressions in their places.

func reasonDeleting(cluster string) string {
	return "PeerCacheCluster " + cluster + " is being deleted"
}

func reasonNamespace(cluster, selector, namespace string) string {
	return "PeerCacheCluster " + cluster + " serves only namespaces with the labels " + selector +
		" (spec.injection.namespaceSelector), and namespace " + namespace + " does not have them"
}

func reasonSelector(cluster string, err error) string {
	return "spec.injection.namespaceSelector of PeerCacheCluster " + cluster + " is not valid: " + err.Error()
}

func reasonNoDriver(cluster string) string {
	return "PeerCacheCluster " + cluster + " gives its sockets to pods by the CSI driver " + plan.CSIDriver +
		" (spec.injection.socket), which is not installed: install it (csi.enabled of the Helm chart, or config/csi), or write " +
		"injection.socket: HostPath"
}

func reasonGroup(facts Facts, group string) string {
	return "annotation " + AnnotationGroup + " names " + quote(group) + ", but the groups of PeerCacheCluster " +
		facts.Namespace + "/" + facts.Cluster + " are " + strings.Join(facts.Groups, ", ") + ": name one of these or remove the annotation"
}

func reasonNoEngine(containers string) string {
	return "no container starts SGLang (" + containers + "): name the right one in the annotation " + AnnotationContainer +
		", or remove the label"
}

func reasonInitContainer(name, containers string) string {
	return "annotation " + AnnotationContainer + " names " + quote(name) +
		", an init container, and init containers are never connected: name one of " + containers
}

func reasonNoSuchContainer(name, containers string) string {
	return "annotation " + AnnotationContainer + " names " + quote(name) + ", which is no container of this pod: name one of " + containers
}

func reasonVolumeTaken(name string) string {
	return "the pod has a volume of its own named " + quote(name) + ": rename it"
}

func reasonContainerTaken(name string) string {
	return "the pod has a container of its own named " + quote(name) + ": rename it"
}

// ofContainer is the reason or the note of one container among those of its pod.
func ofContainer(name, text string) string { return "container " + quote(name) + " " + text }

func reasonBackend(backend string) string {
	return "uses " + storageBackend.name + " " + backend + ", a backend of the user's own"
}

func reasonDecode() string {
	return "is a decode server without a radix cache, where SGLang refuses HiCache: add " +
		decodeRadixCache.name + " to read pages, or " + decodeOffload.name + " to write them"
}

func reasonConfigInFile(path string) string {
	return "reads " + extraConfig.name + " from the file " + path +
		", which cannot be completed here: write it inline as JSON, or remove the flag"
}

func reasonNoObject() string {
	return "gives " + extraConfig.name + " a value that is not a JSON object: write {\"key\":value,...}"
}

func reasonForeignBackend(key, value string) string {
	return "loads a backend of the user's own (" + key + " " + value + " in " + extraConfig.name + ")"
}

func reasonOwnNode() string {
	return "runs a PeerCache node of its own (" + keyDiscovery + " in " + extraConfig.name +
		"): remove that key to use the cluster's node"
}

func reasonUserPythonPath() string {
	return "already uses the variable " + envUserPythonPath + ", which is needed for its " + envPythonPath + ": rename it"
}

func reasonOverlap(volume, at, ours string) string {
	return "mounts volume " + quote(volume) + " at " + at + ", which overlaps " + ours + ": mount it elsewhere"
}

func noteConfigFile() string {
	return "reads flags from a file (" + configFile.name + "), which may choose another backend: write the flags of $" +
		envFlags + " into that file"
}

func noteScript() string {
	return "starts SGLang in a way to which no flags can be appended: use $" + envFlags + ", unquoted, in its script"
}

func quote(s string) string { return `"` + s + `"` }
