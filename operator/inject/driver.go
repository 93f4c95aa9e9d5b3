// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers;csinodes,verbs=get;list;watch

// DriverMissing is true where the pods of a cluster get their sockets from a CSI driver that is not installed, or that no
// machine's kubelet has registered: a quota or an admission rule may refuse its pods. A pod with such a volume never starts.
func DriverMissing(ctx context.Context, reader client.Reader, cluster *v1alpha1.PeerCacheCluster) (bool, error) {
	if !plan.SocketByDriver(cluster.Spec.Injection) {
		return false, nil
	}
	err := reader.Get(ctx, client.ObjectKey{Name: plan.CSIDriver}, csiDriver())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	var machines storagev1.CSINodeList
	if err == nil {
		err = reader.List(ctx, &machines, client.UnsafeDisableDeepCopy) // the webhook asks for each pod
	}
	switch {
	case apierrors.IsForbidden(err): // a caller without the right to read them, such as a user of kubectl, assumes that it works
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading CSIDriver %s and the machines that have it: %w", plan.CSIDriver, err)
	default:
		return !slices.ContainsFunc(machines.Items, HasDriver), nil
	}
}

// HasDriver is true where the kubelet of a machine has registered the CSI driver.
func HasDriver(machine storagev1.CSINode) bool {
	return slices.ContainsFunc(machine.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == plan.CSIDriver })
}

// Gather is FactsFor with the facts that need an API server. namespaces reads Namespaces, and reader the rest.
func Gather(
	ctx context.Context, reader, namespaces client.Reader, cluster *v1alpha1.PeerCacheCluster, podNamespace string, options Options,
) (Facts, error) {
	facts := FactsFor(cluster, podNamespace, options)
	var err error
	if !options.Namespaced() { // such an operator may not read drivers, and assumes that this one exists
		if facts.DriverMissing, err = DriverMissing(ctx, reader, cluster); err != nil {
			return facts, err
		}
	}
	facts.Admission, err = gatherAdmission(ctx, reader, namespaces, podNamespace)
	return facts, err
}
