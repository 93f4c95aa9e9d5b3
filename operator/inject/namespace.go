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
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// RefusesNamespace says why a cluster does not serve the pods of a namespace, "" when it does.
func RefusesNamespace(ctx context.Context, live client.Reader, cluster *v1alpha1.PeerCacheCluster, namespace string) string {
	if cluster.Spec.Injection.NamespaceSelector == nil {
		return ""
	}
	name := cluster.Namespace + "/" + cluster.Name
	selector, err := metav1.LabelSelectorAsSelector(cluster.Spec.Injection.NamespaceSelector)
	if err != nil {
		return reasonSelector(name, err)
	}
	// Read past the cache: it is one small request, and it spares the operator watching every namespace.
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := live.Get(ctx, client.ObjectKey{Name: namespace}, object); err != nil {
		return fmt.Sprintf("reading namespace %s failed: %v: create the pod again later", namespace, err)
	}
	if selector.Matches(labels.Set(object.Labels)) {
		return ""
	}
	return reasonNamespace(name, selector.String(), namespace)
}

// ClusterOf names the PeerCacheCluster that a pod of a namespace asks for; its name is "" when it asks for none.
func ClusterOf(pod metav1.Object, namespace string) client.ObjectKey {
	key := client.ObjectKey{Namespace: namespace, Name: pod.GetLabels()[v1alpha1.LabelInject]}
	if other := pod.GetAnnotations()[v1alpha1.AnnotationClusterNamespace]; other != "" {
		key.Namespace = other
	}
	return key
}
