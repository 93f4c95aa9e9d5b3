// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// cniNetwork is what decides whether packets of a pod leave by a network.
type cniNetwork struct {
	IPAM struct {
		Range  string `json:"range"`
		Routes []struct {
			Destination string `json:"dst"`
			Gateway     string `json:"gw"`
		} `json:"routes"`
	} `json:"ipam"`
}

// covers says whether a route of the network leads to the whole range.
func (n cniNetwork) covers(wanted netip.Prefix) bool {
	for _, route := range n.IPAM.Routes {
		destination, err := netip.ParsePrefix(route.Destination)
		if err == nil && route.Gateway != "" && destination.Bits() <= wanted.Bits() && destination.Contains(wanted.Addr()) {
			return true
		}
	}
	return false
}

// expectRoutes: members of different groups read from each other, and a pod does not have the routes of its machine. So each
// network of a cluster whose pages go by RDMA has routes to the ranges of the other groups. Otherwise such reads go by TCP over
// the pod network. Networks of a cluster are those that its page has shown before it, and those that the operator makes.
func (f *found) expectRoutes(t *testing.T, namespace string, cluster *v1alpha1.PeerCacheCluster, line int) {
	t.Helper()
	if cluster.Spec.Transport != v1alpha1.TransportRDMA {
		return
	}
	desired, err := plan.For(cluster, plan.Facts{DataplaneImage: "dataplane"})
	if err != nil {
		t.Errorf("line %d: %v", line, err)
		return
	}
	configs := maps.Clone(f.configs)
	for name, network := range desired.Networks() {
		configs[name], _, _ = unstructured.NestedString(network.(*unstructured.Unstructured).Object, "spec", "config")
	}
	var shown, hidden []string
	groups := map[string]map[string]cniNetwork{} // by the names of group and network
	for _, group := range desired.Groups {
		for _, rail := range group.Rails {
			if rail.Network == nil {
				continue
			}
			name := networkName(rail.Network.Name, namespace)
			config, has := configs[name]
			if !has {
				hidden = append(hidden, name.Name)
				continue
			}
			shown = append(shown, name.Name)
			if groups[group.FullName()] == nil {
				groups[group.FullName()] = map[string]cniNetwork{}
			}
			var network cniNetwork
			if err := json.Unmarshal([]byte(config), &network); err != nil {
				t.Errorf("line %d: network %s: %v", line, name, err)
			}
			groups[group.FullName()][name.Name] = network
		}
	}
	if len(shown) == 0 || len(desired.Groups) < 2 {
		return
	}
	if len(hidden) > 0 {
		t.Errorf("line %d: the page has network %q of the cluster, and not %q: who copies it makes those without routes", line, shown, hidden)
	}
	f.routed++
	for _, fault := range missingRoutes(groups) {
		t.Errorf("line %d: %s: reads between these groups go over the pod network", line, fault)
	}
}

// expectLossless: who follows a guide to RDMA comes to a cluster whose packets the switches sort into their lossless class.
func (f *found) expectLossless(t *testing.T) {
	t.Helper()
	first := slices.IndexFunc(f.clusters, func(c *v1alpha1.PeerCacheCluster) bool { return c.Spec.Transport == v1alpha1.TransportRDMA })
	if first < 0 {
		return
	}
	if class := f.clusters[first].Spec.RDMA.TrafficClass; class == nil || *class == 0 {
		t.Errorf("line %d: the guide's first cluster with transport RDMA has no rdma.trafficClass", f.lines[first])
	}
}

func networkName(text, namespace string) types.NamespacedName {
	if inNamespace, name, has := strings.Cut(text, "/"); has {
		return types.NamespacedName{Namespace: inNamespace, Name: name}
	}
	return types.NamespacedName{Namespace: namespace, Name: text}
}

// missingRoutes compares each network with those of the other groups.
func missingRoutes(groups map[string]map[string]cniNetwork) (faults []string) {
	for _, from := range slices.Sorted(maps.Keys(groups)) {
		for _, name := range slices.Sorted(maps.Keys(groups[from])) {
			for _, to := range slices.Sorted(maps.Keys(groups)) {
				for _, other := range slices.Sorted(maps.Keys(groups[to])) {
					if to == from {
						continue
					}
					wanted, err := netip.ParsePrefix(groups[to][other].IPAM.Range)
					if err != nil {
						faults = append(faults, fmt.Sprintf("network %s of group %s: %v", other, to, err))
					} else if !groups[from][name].covers(wanted) {
						faults = append(faults, fmt.Sprintf("network %s of group %s has no route to %s of group %s", name, from, wanted, to))
					}
				}
			}
		}
	}
	return faults
}
