// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// SocketDir is the mount path of the socket directory, in nodes and in SGLang pods.
	SocketDir = "/run/peercache"
	// shutdownSeconds is the termination grace period of a node, which leaves the cluster in that time.
	shutdownSeconds = 30
)

// HostSocketDir is the directory on a machine with the sockets of one cluster's nodes.
func HostSocketDir(namespace, cluster string) string { return path.Join(SocketDir, namespace, cluster) }

// HostTenantsDir is the directory on a machine with a folder of sockets for each namespace, where the cluster isolates them. It
// lies beside HostSocketDir: pods from operators without tenants mount the whole of HostSocketDir. No name of a cluster has a
// dot, so the path is unique.
func HostTenantsDir(namespace, cluster string) string {
	return HostSocketDir(namespace, cluster) + ".tenants"
}

// SocketPath is the path of the socket of a group's node, in nodes and in SGLang pods.
func SocketPath(group string) string { return path.Join(SocketDir, group+".sock") }

// buildDaemonSets runs one node of the group on each machine of its pool, and beside it a pod that removes its file, if any.
func buildDaemonSets(
	cluster *v1alpha1.PeerCacheCluster, group Group, facts Facts, image, hash string,
) (node, removal *appsv1.DaemonSet, problem *Problem) {
	labels := podLabels(cluster, group)
	labels[v1alpha1.LabelPeers] = peersDigest(cluster)
	if facts.PodsUnpatched {
		labels[v1alpha1.LabelDiscovery] = v1alpha1.DiscoveryHost
	}
	template, problem := mergeTemplate(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      labels,
			Annotations: podAnnotations(group, hash),
		},
		Spec: buildPodSpec(cluster, group, image),
	}, cluster.Spec.PodTemplate)
	if problem != nil {
		return nil, nil, problem
	}
	removal = group.buildPoolRemoval(cluster, template.Spec, image)
	excludeDrained(&template.Spec)
	keepOutOfMeshes(&template.ObjectMeta)
	template.Labels[v1alpha1.LabelPodShape] = podShape(template)
	template.Labels[v1alpha1.LabelPodImages] = ImagesDigest(&template.Spec, &template.Spec)
	meta := objectMeta(cluster, DaemonSetName(cluster.Name, group))
	meta.Labels = podLabels(cluster, group)
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: podSelector(cluster, group)},
			UpdateStrategy:       updateStrategy(cluster, facts),
			RevisionHistoryLimit: new(int32(3)),
			Template:             template,
		},
	}, removal, nil
}

// updateStrategy replaces a tenth of a group at a time by default, so that only their pages are missing. While an update is
// paused, only the user replaces nodes.
func updateStrategy(cluster *v1alpha1.PeerCacheCluster, facts Facts) appsv1.DaemonSetUpdateStrategy {
	spec, status := cluster.Spec.Update, cluster.Status.Update
	byOperator := spec.Strategy == v1alpha1.UpdateInPlace && !facts.PodsUnpatched
	if spec.Strategy == v1alpha1.UpdateOnDelete || byOperator || status != nil && status.State == v1alpha1.UpdatePaused {
		return appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	return RollingUpdate(spec)
}

// RollingUpdate has the DaemonSet controller replace pods.
func RollingUpdate(spec v1alpha1.UpdateSpec) appsv1.DaemonSetUpdateStrategy {
	maxUnavailable := maxUnavailable(spec)
	return appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &maxUnavailable, MaxSurge: new(intstr.FromInt32(0))},
	}
}

// podShape is the digest of a template without its images: pods that differ in images alone can be updated in place
// (package inplace).
func podShape(template corev1.PodTemplateSpec) string {
	shape := template.DeepCopy()
	delete(shape.Labels, v1alpha1.LabelPodShape)
	delete(shape.Labels, v1alpha1.LabelPodImages)
	for _, containers := range [][]corev1.Container{shape.Spec.InitContainers, shape.Spec.Containers} {
		for i := range containers {
			containers[i].Image = ""
		}
	}
	text, err := json.Marshal(shape)
	if err != nil {
		panic(err) // the types of Kubernetes can be encoded
	}
	return digest(text)
}

// ImagesDigest is the digest of the images that a pod has for the containers of a template. Containers that others add to pods,
// such as the proxy of a service mesh, do not count.
func ImagesDigest(template, pod *corev1.PodSpec) string {
	var lines []string
	for _, pair := range [][2][]corev1.Container{{template.InitContainers, pod.InitContainers}, {template.Containers, pod.Containers}} {
		for _, wanted := range pair[0] {
			for _, container := range pair[1] {
				if container.Name == wanted.Name {
					lines = append(lines, container.Name+"="+container.Image)
				}
			}
		}
	}
	return digest([]byte(strings.Join(lines, "\n")))
}

func podAnnotations(group Group, hash string) map[string]string {
	annotations := map[string]string{v1alpha1.AnnotationConfigHash: hash}
	if networks := group.networks(); networks != "" {
		annotations[MultusNetworks] = networks
	}
	return annotations
}
