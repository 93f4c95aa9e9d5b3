// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// linux is in each selector: no image runs on Windows, whose machines a cluster without a selector would have, too.
var linux = map[string]string{corev1.LabelOSStable: "linux"}

// nodeSelector is the selector of the cluster and of the group's pool.
func nodeSelector(spec v1alpha1.PeerCacheClusterSpec, group Group) map[string]string {
	selector := over(linux, spec.Nodes.Selector)
	if group.Pool != nil {
		maps.Copy(selector, group.Pool.Selector)
	}
	return selector
}

func tolerations(spec v1alpha1.PeerCacheClusterSpec, group Group) []corev1.Toleration {
	if group.Pool == nil {
		return spec.Nodes.Tolerations
	}
	return slices.Concat(spec.Nodes.Tolerations, group.Pool.Tolerations)
}

// excludeDrained excludes drained machines: the DaemonSet controller then deletes the pod, and its node leaves the cluster. It
// runs after the merge of the user's podTemplate, and adds the requirement to each alternative there. An empty alternative
// matches no machine and stays empty.
func excludeDrained(pod *corev1.PodSpec) {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	notDrained := corev1.NodeSelectorRequirement{
		Key: v1alpha1.LabelDrain, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.DrainNow},
	}
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{notDrained}},
		}}
		return
	}
	for i := range (*required).NodeSelectorTerms {
		term := &(*required).NodeSelectorTerms[i]
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			term.MatchExpressions = append(term.MatchExpressions, notDrained)
		}
	}
}

// affinity prevents two nodes of one group on one machine, which would use the same socket and identity. Without pools, the one
// DaemonSet of a group ensures that. With pools, a machine may move to another pool, whose node then waits until the former one
// is gone. Anti-affinity works in both directions, so pods of a cluster that has just dropped its pools wait as well.
func affinity(cluster *v1alpha1.PeerCacheCluster, group Group) *corev1.Affinity {
	if group.Pool == nil {
		return nil
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				v1alpha1.LabelCluster: cluster.Name, v1alpha1.LabelGroup: group.Name,
			}},
			TopologyKey: corev1.LabelHostname,
		}},
	}}
}
