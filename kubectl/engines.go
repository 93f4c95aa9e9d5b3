// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
)

// enginePods returns the pods of the cluster's namespace that ask for it.
func (a *access) enginePods(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := a.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelInject: cluster.Name})
	if err != nil {
		return nil, explain(err, fmt.Sprintf("listing the SGLang pods of %s", identityOf(cluster)))
	}
	return list.Items, nil
}

// addEngines reports what injection has noted on pods: why one was left alone, and what its user should do.
func (r *doctorReport) addEngines(pods []corev1.Pod) {
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodSucceeded || pods[i].Status.Phase == corev1.PodFailed {
			continue
		}
		for _, text := range inject.Noted(&pods[i]) {
			r.add(gradeWarning, pods[i].Name, "engine", text)
		}
	}
}
