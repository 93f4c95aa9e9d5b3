// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/internal/testenv"
)

// TestNetworksWaitForTheirPolicy: where nothing asks whether the writer of a spec may make networks, as with OLM, the operator does
// not make them.
func TestNetworksWaitForTheirPolicy(t *testing.T) {
	installNetworks(t)
	for i, object := range testenv.NetworkPolicies(t) {
		t.Run(object.GetKind(), func(t *testing.T) {
			b := newRestricted(t, "nodes", "tokens", "pods", "networks")
			b.must(b.Delete(t.Context(), testenv.NetworkPolicies(t)[i]))
			t.Cleanup(func() { testenv.InstallNetworkPolicies(t) })
			b.cluster(provisioned)
			b.pass()
			b.condition("ConfigAccepted", metav1.ConditionFalse, "NetworksUnguarded", object.GetKind()+" peercache-networks does not exist")
			if _, err := b.network("rail0"); !apierrors.IsNotFound(err) {
				t.Errorf("the network is there, error %v", err)
			}
			testenv.InstallNetworkPolicies(t)
			b.expectReason("ConfigAccepted", "Accepted")
			if _, err := b.network("rail0"); err != nil {
				t.Error(err)
			}
		})
	}
}
