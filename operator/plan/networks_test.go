// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestNetworkAlone checks that with TCP a rail needs only a network: no resource is requested, and the node has no more rights
// than without rails.
func TestNetworkAlone(t *testing.T) {
	rail := v1alpha1.Rail{Name: "a", Attachment: v1alpha1.AttachmentNetwork, Network: &v1alpha1.RailNetwork{Name: "net", Interface: "rail0"}}
	reached := func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Interface = "rail0" }
	pod := mustPlan(t, testCluster(withRails(v1alpha1.TransportTCP, rail), reached)).DaemonSets[0].Spec.Template
	without := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template
	if got, want := pod.Annotations["k8s.v1.cni.cncf.io/networks"], `[{"name":"net","interface":"rail0"}]`; got != want {
		t.Errorf("networks are %s, want %s", got, want)
	}
	node, plain := pod.Spec.Containers[0], without.Spec.Containers[0]
	if !equality.Semantic.DeepEqual(node.Resources, plain.Resources) ||
		!equality.Semantic.DeepEqual(node.SecurityContext, plain.SecurityContext) || pod.Spec.HostNetwork {
		t.Errorf("resources %+v, security %+v, host network %t", node.Resources, node.SecurityContext, pod.Spec.HostNetwork)
	}
	inside := mustNodeInPod(t, testCluster(withRails(v1alpha1.TransportTCP, rail), reached), "default", "inference")
	if len(inside.Networks) != 1 || inside.Networks[0].Name != "net" || len(inside.Devices) != 0 || inside.RDMA {
		t.Errorf("a node in a pod gets %+v, %v, RDMA %t", inside.Networks, inside.Devices, inside.RDMA)
	}
}

// TestNetworkThatCarriesNoPages checks rails whose network is not that of discovery.interface.
func TestNetworkThatCarriesNoPages(t *testing.T) {
	network := func(name, group, device string) v1alpha1.Rail {
		return v1alpha1.Rail{Name: name, Group: group, Attachment: v1alpha1.AttachmentNetwork, Network: &v1alpha1.RailNetwork{Name: "net", Interface: device}}
	}
	for _, test := range []struct {
		name, reached, says string
		rails               []v1alpha1.Rail
	}{
		{"one in each group", "fast", "", []v1alpha1.Rail{network("a", "g", "fast"), network("b", "h", "fast")}},
		{"discovery elsewhere", "", "write network.interface: fast at this rail and discovery.interface: fast", []v1alpha1.Rail{network("a", "g", "fast")}},
		{"no name", "", "write network.interface: rail0 at this rail and discovery.interface: rail0", []v1alpha1.Rail{network("a", "g", "")}},
		{"a second one", "fast", `rail "b" of group "g" is attached by Network, but carries no pages, because its interface is not ` +
			`discovery.interface: remove the rail, for others reach these members at interface fast of rail "a"`,
			[]v1alpha1.Rail{network("a", "g", "fast"), network("b", "g", "slow")}},
		{"a second one without a name", "fast", "remove the rail", []v1alpha1.Rail{network("a", "g", "fast"), network("b", "g", "")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := For(testCluster(withRails(v1alpha1.TransportTCP, test.rails...), reachedAtInterface(test.reached)), testFacts)
			if test.says == "" && err != nil || test.says != "" &&
				(err == nil || !strings.HasPrefix(err.Error(), "NetworkUnused: ") || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
}

func TestNetworks(t *testing.T) {
	tests := []struct {
		name  string
		rails []v1alpha1.Rail
		want  string
	}{
		{"none", nil, ""},
		{"host network", []v1alpha1.Rail{onHost("a", "g", "mlx5_0")}, ""},
		{"one", []v1alpha1.Rail{{Name: "a", Network: &v1alpha1.RailNetwork{Name: "default/rail0"}}}, `[{"name":"rail0","namespace":"default"}]`},
		{"in the cluster's namespace", []v1alpha1.Rail{{Name: "a", Network: &v1alpha1.RailNetwork{Name: "rail0"}}}, `[{"name":"rail0"}]`},
		{"two with interfaces", []v1alpha1.Rail{
			{Name: "b", Network: &v1alpha1.RailNetwork{Name: "net-b"}},
			{Name: "a", Network: &v1alpha1.RailNetwork{Name: "default/net-a", Interface: "rail0"}},
		}, `[{"name":"net-a","namespace":"default","interface":"rail0"},{"name":"net-b"}]`},
		{"addresses", []v1alpha1.Rail{{
			Name: "a", Network: &v1alpha1.RailNetwork{Name: "n", IPs: []string{"10.1.0.1/24", "fd00::1/64"}, MAC: "02:00:00:00:00:01"},
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
