// SPDX-License-Identifier: Apache-2.0

package plan

import "testing"

func TestMembersAreInNoServiceMesh(t *testing.T) {
	template := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template
	for key, want := range outOfMeshesLabels {
		if got := template.Labels[key]; got != want {
			t.Errorf("label %s is %q", key, got)
		}
	}
	if got := template.Annotations["linkerd.io/inject"]; got != "disabled" {
		t.Errorf("linkerd.io/inject is %q", got)
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
