// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=peercache-networks,verbs=get

// networkGuard is the name of the admission policy, and of its binding, that asks whether the writer of spec.provision.networks may
// make networks: the operator makes them with its own rights. Helm and config/default install it; OLM has no way to.
const networkGuard = "peercache-networks"

// guardNetworks refuses to make networks while that policy is absent.
func (r *Reconciler) guardNetworks(ctx context.Context, desired *plan.Desired) error {
	if len(desired.Networks()) == 0 {
		return nil
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		found, _, err := r.lookUp(ctx, admissionv1.SchemeGroupVersion.WithKind(kind), types.NamespacedName{Name: networkGuard})
		if err != nil && !rights.IsForbidden(err) {
			return err
		}
		if found {
			continue
		}
		why := "does not exist"
		if err != nil {
			why = "cannot be read by the operator, which has no permission (config/rbac)"
		}
		return &plan.Problem{Reason: "NetworksUnguarded", Message: fmt.Sprintf("spec.provision.networks: %s %s %s, which asks whether the "+
			"writer of a spec may make networks: have an administrator run `kubectl apply --server-side -k config/admission`, or name "+
			"networks that exist in rails[].network.name", kind, networkGuard, why)}
	}
	return nil
}
