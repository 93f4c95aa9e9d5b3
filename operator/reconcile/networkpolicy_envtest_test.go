// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestNetworkPolicyIsKept checks that the policy is created, restored after a change, and deleted when it is not
// wanted.
func TestNetworkPolicyIsKept(t *testing.T) {
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster()
	b.pass()
	policy := &networkingv1.NetworkPolicy{}
	b.read("demo-peers", policy)
	members := policy.Spec.Ingress[0]
	if *members.Ports[0].Port != intstr.FromInt32(31998) || len(members.From) != 2 {
		t.Fatalf("%+v", policy.Spec)
	}
	b.expectNoWrites()

	policy.Spec.Ingress[0].From = nil
	b.must(b.Update(t.Context(), policy))
	b.pass()
	b.read("demo-peers", policy)
	if len(policy.Spec.Ingress[0].From) != 2 {
		t.Errorf("everybody reaches the members: %+v", policy.Spec)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.NetworkPolicy = v1alpha1.NetworkPolicyNone })
	b.pass()
	if b.has("demo-peers", policy) {
		t.Error("it is still there")
	}
	b.expectReason("ConfigAccepted", "Accepted")
	b.expectNoWrites()
}
