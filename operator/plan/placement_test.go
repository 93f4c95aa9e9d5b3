// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/peercache/peercache/api/v1alpha1"
)

// gpuAndStorage makes a cluster of machines with two rails and machines without rails.
func gpuAndStorage(s *v1alpha1.PeerCacheClusterSpec) {
	s.Transport = v1alpha1.TransportAuto
	s.Rails = []v1alpha1.Rail{shared("rail0", 0), shared("rail1", 1)}
	s.Nodes.Selector = map[string]string{"cache": "yes"}
	s.Nodes.Tolerations = []corev1.Toleration{{Key: "all"}}
	s.NodePools = []v1alpha1.NodePool{
		{Name: "gpu", Selector: map[string]string{"gpu": "yes"}, Rails: []string{"rail1", "rail0"},
			Tolerations: []corev1.Toleration{{Key: "gpu"}}},
		{Name: "disk", Selector: map[string]string{"disk": "yes"},
			Memory:    &v1alpha1.MemorySpec{Pool: resource.MustParse("8Gi"), HugePages: v1alpha1.HugePages2Mi},
			Resources: &v1alpha1.ResourcesSpec{CPU: resource.MustParse("4"), MemoryOverhead: resource.MustParse("1Gi")}},
	}
}

func variable(daemonSet *appsv1.DaemonSet, name string) string {
	for _, variable := range daemonSet.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

func TestNodePools(t *testing.T) {
	desired := mustPlan(t, testCluster(gpuAndStorage))
	var names []string
	for _, daemonSet := range desired.DaemonSets {
		names = append(names, daemonSet.Name)
	}
	if !slices.Equal(names, []string{"demo-gpu-numa0", "demo-gpu-numa1", "demo-disk-default"}) {
		t.Fatalf("DaemonSets are %q", names)
	}
	gpu, disk := desired.DaemonSets[0], desired.DaemonSets[2]
	for _, test := range []struct {
		daemonSet           *appsv1.DaemonSet
		selector            map[string]string
		tolerations         string
		size, pages, how    string
		socket, id          string
		labels, annotations map[string]string
		resources           map[string]string
	}{
		{gpu, map[string]string{"kubernetes.io/os": "linux", "cache": "yes", "gpu": "yes"}, "all gpu", "1Gi", "off", "auto",
			"/run/peercache/numa0.sock", "$(NODE_NAME).numa0",
			map[string]string{v1alpha1.LabelCluster: "demo", v1alpha1.LabelGroup: "numa0", v1alpha1.LabelPool: "gpu"},
			map[string]string{"k8s.v1.cni.cncf.io/networks": `[{"name":"rail0","namespace":"default"}]`},
			map[string]string{"cpu": "1", "memory": "1543Mi", "rdma/hca_rail0": "1"}},
		{disk, map[string]string{"kubernetes.io/os": "linux", "cache": "yes", "disk": "yes"}, "all", "8Gi", "2Mi", "tcp",
			"/run/peercache/default.sock", "$(NODE_NAME).default",
			map[string]string{v1alpha1.LabelCluster: "demo", v1alpha1.LabelGroup: "default", v1alpha1.LabelPool: "disk"},
			nil, map[string]string{"cpu": "4", "memory": "1064Mi", "hugepages-2Mi": "8Gi"}},
	} {
		pod := test.daemonSet.Spec.Template.Spec
		var keys []string
		for _, toleration := range pod.Tolerations {
			keys = append(keys, toleration.Key)
		}
		if !maps.Equal(pod.NodeSelector, test.selector) || strings.Join(keys, " ") != test.tolerations {
			t.Errorf("%s runs where %v, tolerating %q", test.daemonSet.Name, pod.NodeSelector, keys)
		}
		for name, want := range map[string]string{"PEERCACHE_POOL_SIZE": test.size, "PEERCACHE_HUGE_PAGES": test.pages,
			"PEERCACHE_TRANSPORT": test.how, "PEERCACHE_SOCKET": test.socket, "PEERCACHE_NODE_ID": test.id} {
			if got := variable(test.daemonSet, name); got != want {
				t.Errorf("%s: %s is %q, want %q", test.daemonSet.Name, name, got, want)
			}
		}
		if !maps.Equal(test.daemonSet.Spec.Selector.MatchLabels, test.labels) {
			t.Errorf("%s selects %v", test.daemonSet.Name, test.daemonSet.Spec.Selector.MatchLabels)
		}
		for key, value := range test.labels {
			if test.daemonSet.Spec.Template.Labels[key] != value {
				t.Errorf("%s: pods lack %s=%s", test.daemonSet.Name, key, value)
			}
		}
		for key, value := range test.annotations {
			if test.daemonSet.Spec.Template.Annotations[key] != value {
				t.Errorf("%s: annotation %s is %q", test.daemonSet.Name, key, test.daemonSet.Spec.Template.Annotations[key])
			}
		}
		if got := texts(pod.Containers[0].Resources.Limits); !maps.Equal(got, test.resources) {
			t.Errorf("%s gets %v, want %v", test.daemonSet.Name, got, test.resources)
		}
	}
	if add := gpu.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add; len(add) != 1 {
		t.Errorf("nodes that may use RDMA get %v", add)
	}
	if add := disk.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add; len(add) != 0 {
		t.Errorf("nodes without rails get %v", add)
	}
}

// TestPoolsKeepNodesOfOneGroupApart: two nodes of one group on one machine would use the same socket.
func TestPoolsKeepNodesOfOneGroupApart(t *testing.T) {
	desired := mustPlan(t, testCluster(gpuAndStorage))
	terms := desired.DaemonSets[0].Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	want := map[string]string{v1alpha1.LabelCluster: "demo", v1alpha1.LabelGroup: "numa0"}
	if len(terms) != 1 || terms[0].TopologyKey != "kubernetes.io/hostname" || !maps.Equal(terms[0].LabelSelector.MatchLabels, want) {
		t.Errorf("terms are %+v", terms)
	}
	if affinity := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template.Spec.Affinity; affinity.PodAntiAffinity != nil {
		t.Errorf("without pools the affinity is %+v", affinity)
	}
}

// TestDrainedMachinesAreLeftOut checks that every alternative of the affinity excludes drained machines, and that an empty
// alternative stays empty.
func TestDrainedMachinesAreLeftOut(t *testing.T) {
	const not = `{"key":"peercache.io/drain","operator":"NotIn","values":["true"]}`
	const zone = `{"key":"zone","operator":"Exists"}`
	const name = `{"key":"metadata.name","operator":"In","values":["m"]}`
	for _, test := range []struct{ template, want string }{
		{``, `[{"matchExpressions":[` + not + `]}]`},
		{`{"priorityClassName": "high"}`, `[{"matchExpressions":[` + not + `]}]`},
		{`{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
			{"matchExpressions": [` + zone + `]}, {}, {"matchFields": [` + name + `]}]}}}}`,
			`[{"matchExpressions":[` + zone + `,` + not + `]},{},{"matchExpressions":[` + not + `],"matchFields":[` + name + `]}]`},
	} {
		desired := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) {
			if test.template != "" {
				s.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(test.template)}}
			}
		}))
		pod := desired.DaemonSets[0].Spec.Template.Spec
		got, err := json.Marshal(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
		if err != nil || string(got) != test.want {
			t.Errorf("podTemplate %s: terms are\n%s (%v), want\n%s", test.template, got, err, test.want)
		}
	}
}

func TestProblemsOfPools(t *testing.T) {
	pool := func(name string, rails ...string) v1alpha1.NodePool {
		return v1alpha1.NodePool{Name: name, Selector: map[string]string{"pool": name}, Rails: rails}
	}
	tests := []struct {
		name, reason, says string
		change             func(*v1alpha1.PeerCacheClusterSpec)
	}{
		{"pools on the host", "", "", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails = []v1alpha1.Rail{onHost("a", "g", "mlx5_0"), onHost("b", "h", "mlx5_1")}
			s.NodePools = []v1alpha1.NodePool{pool("x", "a"), pool("y", "b")}
		}},
		{"a pool twice on the host", "HostPortConflict", "put these rails into one",
			func(s *v1alpha1.PeerCacheClusterSpec) {
				s.Rails = []v1alpha1.Rail{onHost("a", "g", "mlx5_0"), onHost("b", "h", "mlx5_1")}
				s.NodePools = []v1alpha1.NodePool{pool("x", "a", "b"), pool("y")}
			}},
		{"names that join alike", "GroupNameConflict", `"a-b-c": rename`, func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Rails = []v1alpha1.Rail{onHost("a", "c", "mlx5_0"), onHost("b", "b-c", "mlx5_1")}
			s.NodePools = []v1alpha1.NodePool{pool("a-b", "a"), pool("a", "b")}
		}},
		{"a pool that contradicts nodes", "SelectorConflict", "remove the label from nodes.selector",
			func(s *v1alpha1.PeerCacheClusterSpec) {
				s.Nodes.Selector = map[string]string{"pool": "y"}
				s.NodePools = []v1alpha1.NodePool{pool("y"), pool("x")}
			}},
		{"a selector without values", "SelectorInvalid", "injection.namespaceSelector cannot be used",
			func(s *v1alpha1.PeerCacheClusterSpec) {
				s.Injection.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := For(testCluster(test.change), testFacts)
			if test.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.reason+": ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %s saying %q", err, test.reason, test.says)
			}
		})
	}
}
