// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What keeps the proxies of service meshes out of a pod: of Istio with sidecars and ambient, of Kuma, and of Linkerd. A proxy
// would take the connections of peers, which have TLS of their own, and cost each page a copy.
var (
	outOfMeshesLabels = map[string]string{
		"sidecar.istio.io/inject": "false", "istio.io/dataplane-mode": "none", "kuma.io/sidecar-injection": "disabled",
	}
	outOfMeshesAnnotations = map[string]string{"linkerd.io/inject": "disabled"}
)

// keepOutOfMeshes leaves what podTemplate says of them.
func keepOutOfMeshes(pod *metav1.ObjectMeta) {
	pod.Labels = over(outOfMeshesLabels, pod.Labels)
	pod.Annotations = over(outOfMeshesAnnotations, pod.Annotations)
}

func over(below, above map[string]string) map[string]string {
	merged := maps.Clone(below)
	maps.Copy(merged, above)
	return merged
}
