// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func TestMembersAreInNoServiceMesh(t *testing.T) {
	node, removal := mustPlanRemoval(t, inFolder("/run/pool"))
	for _, daemonSet := range []*appsv1.DaemonSet{node, removal} {
		template := daemonSet.Spec.Template
		for key, want := range outOfMeshesLabels {
			if got := template.Labels[key]; got != want {
				t.Errorf("%s: label %s is %q", daemonSet.Name, key, got)
			}
		}
		if got := template.Annotations["linkerd.io/inject"]; got != "disabled" {
			t.Errorf("%s: linkerd.io/inject is %q", daemonSet.Name, got)
		}
	}
}

func TestPodTemplateMayPutMembersIntoAServiceMesh(t *testing.T) {
	template := mustPlan(t, testCluster(withTemplate(t, `
metadata:
  labels: {sidecar.istio.io/inject: "true"}
  annotations: {linkerd.io/inject: enabled}
`))).DaemonSets[0].Spec.Template
	if template.Labels["sidecar.istio.io/inject"] != "true" || template.Annotations["linkerd.io/inject"] != "enabled" {
		t.Errorf("the template's metadata is %+v", template.ObjectMeta)
	}
	if template.Labels["istio.io/dataplane-mode"] != "none" {
		t.Error("podTemplate said nothing of ambient")
	}
}
