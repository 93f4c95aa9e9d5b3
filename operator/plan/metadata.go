// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// The labels of every object that the operator owns.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	AppName       = "peercache"
	ComponentNode = "node"
	ManagedBy     = "peercache-operator"
)

// The names of a cluster's objects.
func serviceAccountName(cluster string) string { return cluster + "-node" }
func configMapName(cluster string) string      { return cluster + "-config" }
func discoveryName(cluster string) string      { return cluster + "-discovery" }

// DaemonSetName is the name of a group's DaemonSet.
func DaemonSetName(cluster string, group Group) string { return cluster + "-" + group.FullName() }

// objectMeta is the metadata that all owned objects share. The owner reference deletes them together with the cluster.
func objectMeta(cluster *v1alpha1.PeerCacheCluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: cluster.Namespace,
		Labels:    clusterLabels(cluster),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("PeerCacheCluster")),
		},
	}
}

// componentMeta is the metadata of an object of another component than the nodes.
func componentMeta(cluster *v1alpha1.PeerCacheCluster, name, component string) metav1.ObjectMeta {
	meta := objectMeta(cluster, name)
	meta.Labels[LabelComponent] = component
	return meta
}

func clusterLabels(cluster *v1alpha1.PeerCacheCluster) map[string]string {
	return map[string]string{
		LabelName:             AppName,
		LabelInstance:         cluster.Name,
		LabelManagedBy:        ManagedBy,
		v1alpha1.LabelCluster: cluster.Name,
	}
}

// podLabels are the labels of a group's pods and of its DaemonSet.
func podLabels(cluster *v1alpha1.PeerCacheCluster, group Group) map[string]string {
	labels := clusterLabels(cluster)
	labels[LabelComponent] = ComponentNode
	maps.Copy(labels, podSelector(cluster, group))
	return labels
}

// podSelector must never change: a DaemonSet's selector is immutable.
func podSelector(cluster *v1alpha1.PeerCacheCluster, group Group) map[string]string {
	selector := map[string]string{v1alpha1.LabelCluster: cluster.Name, v1alpha1.LabelGroup: group.Name}
	if group.Pool != nil {
		selector[v1alpha1.LabelPool] = group.Pool.Name
	}
	return selector
}
