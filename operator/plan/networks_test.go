// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestNetworks(t *testing.T) {
	tests := []struct {
		name  string
		rails []v1alpha1.Rail
		want  string
	}{
		{"none", nil, ""},
		{"host network", []v1alpha1.Rail{onHost("a", "g", "mlx5_0")}, ""},
		{"one", []v1alpha1.Rail{{Name: "a", Network: "default/rail0"}}, `[{"name":"rail0","namespace":"default"}]`},
		{"in the cluster's namespace", []v1alpha1.Rail{{Name: "a", Network: "rail0"}}, `[{"name":"rail0"}]`},
		{"two with interfaces", []v1alpha1.Rail{
			{Name: "b", Network: "net-b"},
			{Name: "a", Network: "default/net-a", Interface: "rail0"},
		}, `[{"name":"net-a","namespace":"default","interface":"rail0"},{"name":"net-b"}]`},
		{"addresses", []v1alpha1.Rail{{
			Name: "a", Network: "n", IPs: []string{"10.1.0.1/24", "fd00::1/64"}, MAC: "02:00:00:00:00:01",
		}}, `[{"name":"n","ips":["10.1.0.1/24","fd00::1/64"],"mac":"02:00:00:00:00:01"}]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			template := mustPlan(t, testCluster(withRails(v1alpha1.TransportTCP, test.rails...))).DaemonSets[0].Spec.Template
			got, there := template.Annotations["k8s.v1.cni.cncf.io/networks"]
			if got != test.want || there != (test.want != "") {
				t.Errorf("got %q (%t), want %q", got, there, test.want)
			}
		})
	}
}
