// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestResources(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1alpha1.PeerCacheClusterSpec)
		want   map[string]string
	}{
		{"defaults", func(*v1alpha1.PeerCacheClusterSpec) {}, map[string]string{"cpu": "1", "memory": "1543Mi"}},
		{"cpu and overhead", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Resources.CPU = resource.MustParse("4")
			s.Resources.MemoryOverhead = resource.MustParse("1Gi")
		}, map[string]string{"cpu": "4", "memory": "2055Mi"}},
		{"a large pool", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Memory.Pool = resource.MustParse("1Ti")
		}, map[string]string{"cpu": "1", "memory": "1056256Mi"}}, // 5Gi of index and 2Gi of page tables
		{"2Mi pages hold the pool", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Memory.HugePages = v1alpha1.HugePages2Mi
		}, map[string]string{"cpu": "1", "memory": "517Mi", "hugepages-2Mi": "1Gi"}},
		{"1Gi pages hold the pool", func(s *v1alpha1.PeerCacheClusterSpec) {
			s.Memory.HugePages = v1alpha1.HugePages1Gi
		}, map[string]string{"cpu": "1", "memory": "517Mi", "hugepages-1Gi": "1Gi"}},
		{"one device per rail", withRails(v1alpha1.TransportRDMA,
			v1alpha1.Rail{Name: "a", SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/x"}}, v1alpha1.Rail{Name: "b", SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/x"}},
			v1alpha1.Rail{Name: "c", SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/y"}}, v1alpha1.Rail{Name: "d"}),
			map[string]string{"cpu": "1", "memory": "1543Mi", "rdma/x": "2", "rdma/y": "1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := testCluster(test.change).Spec
			got := buildResources(spec, Groups(spec)[0])
			if requests := texts(got.Requests); !maps.Equal(requests, test.want) {
				t.Errorf("requests %v, want %v", requests, test.want)
			}
			if limits := texts(got.Limits); !maps.Equal(limits, test.want) {
				t.Errorf("limits %v, want %v: the pod is not Guaranteed", limits, test.want)
			}
		})
	}
}

func texts(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, quantity := range list {
		out[string(name)] = quantity.String()
	}
	return out
}
