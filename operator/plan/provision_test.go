// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

func provisioned(s *v1alpha1.PeerCacheClusterSpec) {
	s.Rails = []v1alpha1.Rail{
		{Name: "rail0", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/rail_0"}, Network: &v1alpha1.RailNetwork{Name: "rail0"}},
		{Name: "rail1", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "example.com/rail_1"}, Network: &v1alpha1.RailNetwork{Name: "rail1", IPs: []string{"10.0.0.1/24"}, MAC: "02:00:00:00:00:01"}},
		{Name: "rail2", Attachment: v1alpha1.AttachmentSRIOV, SRIOV: &v1alpha1.VirtualFunction{ResourceName: "nvidia.com/rail2"}, Network: &v1alpha1.RailNetwork{Name: "rail2"}},
	}
	s.Provision = v1alpha1.ProvisionSpec{
		DevicePlugin: &v1alpha1.DevicePluginSpec{Image: "plugin:1", Resources: []v1alpha1.SharedResource{
			{Rail: "rail1", Shares: 7, Selectors: v1alpha1.PortSelectors{Vendors: []string{"15b3"}, DeviceIDs: []string{"1021"},
				Drivers: []string{"mlx5_core"}}},
			{Rail: "rail0", Shares: 63, Selectors: v1alpha1.PortSelectors{Interfaces: []string{"ens1f0np0"}}},
		}},
		Networks: []v1alpha1.ProvisionedNetwork{
			{Rail: "rail0", Type: v1alpha1.NetworkMacvlan, Interface: "ens1f0np0", MTU: 9000,
				IPAM: v1alpha1.IPAMSpec{Type: v1alpha1.IPAMWhereabouts, Range: "10.1.0.0/24", Exclude: []string{"10.1.0.0/30"},
					Routes: []v1alpha1.Route{{Destination: "10.2.0.0/24", Gateway: "10.1.0.1"}}}},
			{Rail: "rail1", Type: v1alpha1.NetworkMacvlan, Interface: "ens2f0np0", IPAM: v1alpha1.IPAMSpec{Type: v1alpha1.IPAMStatic}},
			{Rail: "rail2", Type: v1alpha1.NetworkSRIOV, IPAM: v1alpha1.IPAMSpec{Type: v1alpha1.IPAMHostLocal, Range: "10.2.0.0/24"}},
		},
	}
}

func extra[T any](t *testing.T, desired *Desired, name string) T {
	t.Helper()
	i := slices.IndexFunc(desired.Extras, func(object client.Object) bool {
		_, ok := object.(T)
		return ok && object.GetName() == name
	})
	if i < 0 {
		t.Fatalf("there is no %s among %v", name, desired.Extras)
	}
	found, _ := desired.Extras[i].(T)
	return found
}

// TestDevicePluginConfiguration compares the configuration with a file. hack/lab/cluster/tools/rdma-shared-plugin reads the same
// file with the package of the plug-in.
func TestDevicePluginConfiguration(t *testing.T) {
	want, err := os.ReadFile("testdata/device-plugin.json")
	if err != nil {
		t.Fatal(err)
	}
	config := extra[*corev1.ConfigMap](t, mustPlan(t, testCluster(provisioned)), "demo-device-plugin")
	if got := config.Data["config.json"]; got != string(want) {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestDevicePluginPod(t *testing.T) {
	pools := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes = v1alpha1.NodesSpec{Selector: map[string]string{"cache": "yes"}, Tolerations: []corev1.Toleration{{Key: "all"}}}
		s.NodePools = []v1alpha1.NodePool{
			{Name: "a", Selector: map[string]string{"kind": "a"}, Rails: []string{"rail0"}, Tolerations: []corev1.Toleration{{Key: "a"}}},
			{Name: "b", Selector: map[string]string{"kind": "b", "zone": "1"}, Rails: []string{"rail1", "rail2"}},
			{Name: "c", Selector: map[string]string{"kind": "c"}, Tolerations: []corev1.Toleration{{Key: "c"}}},
		}
	}
	desired := mustPlan(t, testCluster(provisioned, pools))
	daemonSet := extra[*appsv1.DaemonSet](t, desired, "demo-device-plugin")
	pod := daemonSet.Spec.Template.Spec
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 2 || terms[0].MatchExpressions[0].Values[0] != "a" || len(terms[1].MatchExpressions) != 2 {
		t.Errorf("it runs on %+v, want the pools with rails", terms)
	}
	if len(pod.Tolerations) != 2 || pod.Tolerations[1].Key != "a" || pod.NodeSelector["cache"] != "yes" || !pod.HostNetwork {
		t.Errorf("the pod is %+v", pod)
	}
	if len(desired.DaemonSets[0].Spec.Template.Spec.Tolerations) != 2 {
		t.Errorf("the nodes tolerate %+v", desired.DaemonSets[0].Spec.Template.Spec.Tolerations)
	}
	if daemonSet.Labels[LabelComponent] != "device-plugin" || daemonSet.Spec.Template.Labels[LabelComponent] != "device-plugin" ||
		daemonSet.Spec.Template.Annotations[v1alpha1.AnnotationConfigHash] == "" {
		t.Errorf("it could be taken for a node: %v", daemonSet.Labels)
	}
	paths := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		paths[mount.MountPath] = mount.Name
	}
	for _, path := range []string{"/k8s-rdma-shared-dev-plugin", "/var/lib/kubelet/device-plugins",
		"/var/lib/kubelet/plugins_registry", "/dev"} {
		if paths[path] == "" {
			t.Errorf("%s is not mounted", path)
		}
	}
	if affinity := extra[*appsv1.DaemonSet](t, mustPlan(t, testCluster(provisioned)), "demo-device-plugin").Spec.Template.Spec.Affinity; affinity != nil {
		t.Errorf("without pools it runs on %+v only", affinity)
	}
}

func TestProvisionedNetworks(t *testing.T) {
	desired := mustPlan(t, testCluster(provisioned, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails = append(s.Rails, v1alpha1.Rail{Name: "rail3", Network: &v1alpha1.RailNetwork{Name: "rail3"}}, v1alpha1.Rail{Name: "rail4", Network: &v1alpha1.RailNetwork{Name: "rail4"}})
		s.Provision.Networks = append(s.Provision.Networks,
			v1alpha1.ProvisionedNetwork{Rail: "rail3", Type: v1alpha1.NetworkIPVLAN, Interface: "ens3", MTU: 1500,
				IPAM: v1alpha1.IPAMSpec{Type: v1alpha1.IPAMWhereabouts, Range: "fd00::/64"}},
			v1alpha1.ProvisionedNetwork{Rail: "rail4", Type: v1alpha1.NetworkHostDevice, Interface: "ens4",
				IPAM: v1alpha1.IPAMSpec{Type: v1alpha1.IPAMWhereabouts, Range: "10.3.0.0/24"}})
	}))
	for name, want := range map[string]string{
		"rail0": `{"cniVersion":"0.3.1","name":"rail0","type":"macvlan","master":"ens1f0np0","mode":"bridge","mtu":9000,` +
			`"ipam":{"type":"whereabouts","range":"10.1.0.0/24","exclude":["10.1.0.0/30"],` +
			`"routes":[{"dst":"10.2.0.0/24","gw":"10.1.0.1"}]}}`,
		"rail1": `{"cniVersion":"0.3.1","name":"rail1","type":"macvlan","master":"ens2f0np0","mode":"bridge",` +
			`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}`,
		"rail2": `{"cniVersion":"0.3.1","name":"rail2","type":"sriov",` +
			`"ipam":{"type":"host-local","ranges":[[{"subnet":"10.2.0.0/24"}]]}}`,
		"rail3": `{"cniVersion":"0.3.1","name":"rail3","type":"ipvlan","master":"ens3","mode":"l2","mtu":1500,` +
			`"ipam":{"type":"whereabouts","range":"fd00::/64"}}`,
		"rail4": `{"cniVersion":"0.3.1","name":"rail4","type":"host-device","device":"ens4",` +
			`"ipam":{"type":"whereabouts","range":"10.3.0.0/24"}}`,
	} {
		network := extra[*unstructured.Unstructured](t, desired, name)
		config, _, err := unstructured.NestedString(network.Object, "spec", "config")
		if err != nil || config != want {
			t.Errorf("%s is\n%s, want\n%s (error %v)", name, config, want, err)
		}
		if network.GetKind() != "NetworkAttachmentDefinition" || network.GetNamespace() != "inference" ||
			!metav1.IsControlledBy(network, testCluster()) {
			t.Errorf("%s is %+v", name, network)
		}
		resource := network.GetAnnotations()["k8s.v1.cni.cncf.io/resourceName"]
		if (name == "rail2") != (resource == "nvidia.com/rail2") {
			t.Errorf("%s belongs to resource %q", name, resource)
		}
	}
	if len(desired.Networks()) != 5 {
		t.Errorf("networks are %v", desired.Networks())
	}
}

func TestProvisionProblems(t *testing.T) {
	tests := []struct {
		name, says string
		change     func(*v1alpha1.PeerCacheClusterSpec)
	}{
		{"a group named like the plug-in", "rename the group", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails[0].Group = "device-plugin"
		}},
		{"a name that the plug-in refuses", "write for example resourceName: rdma/rail_0", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails[0].SharedDevicePlugin.ResourceName = "rdma/rail-0"
		}},
		{"one resource twice", `rails "rail1" and "rail0" both request resource "rail_1"`, func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails[0].SharedDevicePlugin.ResourceName = "rdma/rail_1"
		}},
		{"one network twice", "give each rail its own network", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails[1].Network.Name = "rail0"
		}},
		{"static without addresses", "add rails[].network.ips", func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails[1].Network.IPs = nil }},
		{"addresses without static", "write type: Static", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails[0].Network.IPs = []string{"10.9.0.1/24"}
		}},
		{"MAC on IPVLAN", "write type: Macvlan", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Provision.Networks[1].Type = v1alpha1.NetworkIPVLAN
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := For(testCluster(provisioned, test.change), testFacts)
			if err == nil || !strings.HasPrefix(err.Error(), "ProvisionConflict: ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
}
