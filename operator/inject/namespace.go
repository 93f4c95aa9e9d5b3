// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/reasons"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// RefusesNamespace returns why a cluster does not serve the pods of a namespace, or "". A cluster serves its own namespace, and
// those that its selector selects.
func RefusesNamespace(ctx context.Context, reader client.Reader, cluster *v1alpha1.PeerCacheCluster, namespace string) string {
	if reason := RefusesOthers(cluster, namespace); reason != "" || namespace == cluster.Namespace {
		return reason
	}
	selector, err := metav1.LabelSelectorAsSelector(cluster.Spec.Injection.NamespaceSelector)
	switch {
	case err != nil: // condition ConfigAccepted of the cluster says what is wrong
		return notServed(cluster, namespace)
	case selector.Empty():
		return ""
	}
	object := namespaceObject()
	if err := reader.Get(ctx, client.ObjectKey{Name: namespace}, object); err != nil {
		return fmt.Sprintf("reading namespace %s failed: %v: create the pod again later", namespace, err)
	}
	if selector.Matches(labels.Set(object.Labels)) {
		return ""
	}
	return notServed(cluster, namespace)
}

// namespaceObject is what is read of a namespace.
func namespaceObject() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// RefusesOthers is the part of RefusesNamespace that needs no API server: without a selector, a cluster serves only its own
// namespace.
func RefusesOthers(cluster *v1alpha1.PeerCacheCluster, namespace string) string {
	if namespace == cluster.Namespace || cluster.Spec.Injection.NamespaceSelector != nil {
		return ""
	}
	return notServed(cluster, namespace)
}

func notServed(cluster *v1alpha1.PeerCacheCluster, namespace string) string {
	return reasons.NamespaceNotServed(cluster.Namespace+"/"+cluster.Name, namespace)
}

// ClusterOf returns the PeerCacheCluster that a pod names. The name is "" where the pod names none.
func ClusterOf(pod metav1.Object, namespace string) client.ObjectKey {
	key := client.ObjectKey{Namespace: namespace, Name: pod.GetLabels()[v1alpha1.LabelInject]}
	if other := pod.GetAnnotations()[v1alpha1.AnnotationClusterNamespace]; other != "" {
		key.Namespace = other
	}
	return key
}
