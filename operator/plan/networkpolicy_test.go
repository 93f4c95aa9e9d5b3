// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/peercache/peercache/api/v1alpha1"
)

// policyOf returns the cluster's policy, or nil.
func policyOf(t *testing.T, cluster *v1alpha1.PeerCacheCluster) *networkingv1.NetworkPolicy {
	t.Helper()
	for _, object := range mustPlan(t, cluster).Extras {
		if made, ok := object.(*unstructured.Unstructured); ok && made.GetKind() == "NetworkPolicy" {
			policy := &networkingv1.NetworkPolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, policy); err != nil {
				t.Fatal(err)
			}
			return policy
		}
	}
	return nil
}

// peersOf returns the peers that a rule allows, one line for each.
func peersOf(rule networkingv1.NetworkPolicyIngressRule) (lines []string) {
	for _, peer := range rule.From {
		lines = append(lines, fmt.Sprintf("%s in %s", metav1.FormatLabelSelector(peer.PodSelector), metav1.FormatLabelSelector(peer.NamespaceSelector)))
	}
	return lines
}

func portsOf(rule networkingv1.NetworkPolicyIngressRule) (lines []string) {
	for _, port := range rule.Ports {
		lines = append(lines, fmt.Sprintf("%s %s", *port.Protocol, port.Port))
	}
	return lines
}

// TestNetworkPolicy checks that only members may use the port for peers, and that the other ports are open.
func TestNetworkPolicy(t *testing.T) {
	const (
		nodes   = "app.kubernetes.io/component=node,peercache.io/cluster=demo in <none>"
		engines = "peercache.io/group,peercache.io/inject=demo in <none>"
	)
	all := func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.NamespaceSelector = &metav1.LabelSelector{} }
	team := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Injection.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	}
	moreHere := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(`{"containers": [{"name": "exporter", "image": "x",
			"ports": [{"containerPort": 9100}, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 31998, "protocol": "UDP"}]}]}`)}}
	}
	for name, test := range map[string]struct {
		changes     []func(*v1alpha1.PeerCacheClusterSpec)
		peers, open []string
	}{
		"by default": {nil, []string{nodes, engines}, []string{"TCP 31997"}},
		"pods of other namespaces cannot have the token": {
			[]func(*v1alpha1.PeerCacheClusterSpec){all}, []string{nodes, engines}, []string{"TCP 31997"},
		},
		"nor the secret of tenants": {
			[]func(*v1alpha1.PeerCacheClusterSpec){team, insecure}, []string{nodes, engines}, []string{"TCP 31997"},
		},
		"and need none where nobody does": {
			[]func(*v1alpha1.PeerCacheClusterSpec){team, insecure, shareAll},
			[]string{nodes, engines, "peercache.io/group,peercache.io/inject=demo in team=a"}, []string{"TCP 31997"},
		},
		"what podTemplate adds is the user's": {
			[]func(*v1alpha1.PeerCacheClusterSpec){moreHere}, []string{nodes, engines},
			[]string{"UDP 53", "TCP 9100", "TCP 31997", "UDP 31998"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster(test.changes...)
			policy := policyOf(t, cluster)
			if policy == nil || len(policy.Spec.Ingress) != 2 || !metav1.IsControlledBy(policy, cluster) {
				t.Fatalf("%+v", policy)
			}
			selects := metav1.FormatLabelSelector(&policy.Spec.PodSelector) + " in <none>"
			if selects != nodes || !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress"}) {
				t.Errorf("it is for %s, %v", selects, policy.Spec.PolicyTypes)
			}
			members, rest := policy.Spec.Ingress[0], policy.Spec.Ingress[1]
			if got := peersOf(members); !slices.Equal(got, test.peers) || !slices.Equal(portsOf(members), []string{"TCP 31998"}) {
				t.Errorf("%q reach %q, want %q", got, portsOf(members), test.peers)
			}
			if got := portsOf(rest); !slices.Equal(got, test.open) || len(rest.From) != 0 {
				t.Errorf("%q are open to %v, want %q", got, rest.From, test.open)
			}
		})
	}
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){
		"not wanted":                  noPolicy,
		"nodes on machines' networks": withRails(v1alpha1.TransportRDMA, onHost("a", "g", "mlx5_0")),
	} {
		if policy := policyOf(t, testCluster(change)); policy != nil {
			t.Errorf("%s: %+v", name, policy)
		}
	}
}
