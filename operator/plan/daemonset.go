// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// SocketDir is where the socket directory is mounted, in nodes and in SGLang pods.
	SocketDir = "/run/peercache"
	// shutdownSeconds bounds leaving the cluster: a node that is told to stop says goodbye first.
	shutdownSeconds = 30
)

// HostSocketDir is the machine's directory that holds the sockets of one cluster's nodes.
func HostSocketDir(namespace, cluster string) string { return path.Join(SocketDir, namespace, cluster) }

// SocketPath is the socket of a group's node, as nodes and SGLang pods see it.
func SocketPath(group string) string { return path.Join(SocketDir, group+".sock") }

// buildDaemonSet runs one node per machine of its pool for one group.
func buildDaemonSet(cluster *v1alpha1.PeerCacheCluster, group Group, image, hash string) (*appsv1.DaemonSet, *Problem) {
	template, problem := mergeTemplate(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      podLabels(cluster, group),
			Annotations: podAnnotations(group, hash),
		},
		Spec: buildPodSpec(cluster, group, image),
	}, cluster.Spec.PodTemplate)
	if problem != nil {
		return nil, problem
	}
	keepOffDrained(&template.Spec)
	meta := objectMeta(cluster, DaemonSetName(cluster.Name, group))
	meta.Labels = podLabels(cluster, group)
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: podSelector(cluster, group)},
			UpdateStrategy:       updateStrategy(cluster),
			RevisionHistoryLimit: new(int32(3)),
			Template:             template,
		},
	}, nil
}

// updateStrategy replaces one machine's node at a time unless told otherwise, so that only its pages are away. An update
// that is paused is one in which nobody but the user replaces nodes.
func updateStrategy(cluster *v1alpha1.PeerCacheCluster) appsv1.DaemonSetUpdateStrategy {
	wanted, under := cluster.Spec.Update, cluster.Status.Update
	if wanted.Strategy == v1alpha1.UpdateOnDelete || under != nil && under.State == v1alpha1.UpdatePaused {
		return appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	away := intstr.FromInt32(1)
	if wanted.MaxUnavailable != nil {
		away = *wanted.MaxUnavailable
	}
	return appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &away, MaxSurge: new(intstr.FromInt32(0))},
	}
}

func podAnnotations(group Group, hash string) map[string]string {
	annotations := map[string]string{v1alpha1.AnnotationConfigHash: hash}
	if networks := group.networks(); networks != "" {
		annotations[MultusNetworks] = networks
	}
	return annotations
}
