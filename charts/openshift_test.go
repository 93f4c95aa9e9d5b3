// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import "testing"

// TestOpenShift: constraints are made where they are asked for, and bound to the service accounts that members and driver have.
func TestOpenShift(t *testing.T) {
	const kind = "SecurityContextConstraints"
	if helmTemplate(t).has(kind) {
		t.Error("constraints are made without being asked for")
	}
	all := helmTemplate(t, "openshift.enabled=true", "csi.enabled=true", "openshift.members[0].namespace=inference", "openshift.members[0].cluster=kv")
	constraints := all.get(t, kind, "peercache-members")
	if constraints.Object["allowHostDirVolumePlugin"] != true || constraints.Object["allowPrivilegedContainer"] != false {
		t.Errorf("the constraints are %v", constraints.Object)
	}
	for binding, want := range map[string][3]string{
		"peercache-members-scc-kv": {"peercache-members-scc", "kv-node", "inference"},
		"peercache-csi-scc":        {"system:openshift:scc:privileged", "peercache-csi", "peercache-system"},
	} {
		object := all.get(t, "RoleBinding", binding)
		subject := list(t, object, "subjects")[0]
		if got := [3]string{text(t, object, "roleRef", "name"), subject["name"].(string), subject["namespace"].(string)}; got != want {
			t.Errorf("%s binds %q, want %q", binding, got, want)
		}
	}
	if wide := helmTemplate(t, "openshift.enabled=true", "openshift.hostNetwork=true").get(t, kind, "peercache-members"); wide.Object["allowHostNetwork"] != true {
		t.Errorf("with the machine's network the constraints are %v", wide.Object)
	}
	// What a container asks for beyond the image is what restricted-v2 refuses.
	deployment := all.get(t, "Deployment", "peercache-operator")
	if _, pod := operatorContainer(t, all); pod["securityContext"].(map[string]any)["runAsUser"] != nil {
		t.Errorf("the operator chooses its user: %v", deployment.Object)
	}
}
