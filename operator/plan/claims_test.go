// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestClaims(t *testing.T) {
	tests := []struct {
		name  string
		rails []v1alpha1.Rail
		want  string // claims of the pod as claim=template
	}{
		{"none", []v1alpha1.Rail{onHost("a", "", "mlx5_0")}, ""},
		{"one per rail", []v1alpha1.Rail{byClaim("a", "nic", ""), byClaim("b", "nic", "")}, "a=nic b=nic"},
		{"one for requests of a template", []v1alpha1.Rail{byClaim("a", "pair", "x"), byClaim("b", "pair", "y"),
			byClaim("c", "other", "x")}, "a=pair c=other"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := mustPlan(t, testCluster(withRails(v1alpha1.TransportRDMA, test.rails...))).DaemonSets[0].Spec.Template.Spec
			var ofPod, ofContainer, names []string
			for _, claim := range pod.ResourceClaims {
				ofPod = append(ofPod, claim.Name+"="+*claim.ResourceClaimTemplateName)
				names = append(names, claim.Name)
			}
			for _, claim := range pod.Containers[0].Resources.Claims {
				ofContainer = append(ofContainer, claim.Name)
				if claim.Request != "" {
					t.Errorf("claim %s is cut down to request %s", claim.Name, claim.Request)
				}
			}
			if got := strings.Join(ofPod, " "); got != test.want {
				t.Errorf("the pod claims %q, want %q", got, test.want)
			}
			if strings.Join(ofContainer, " ") != strings.Join(names, " ") {
				t.Errorf("the container gets %q of %q", ofContainer, names)
			}
		})
	}
}
