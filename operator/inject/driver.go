// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;list;watch

// DriverMissing is true where the pods of a cluster get their sockets from a CSI driver that is not installed. A pod with
// such a volume never starts.
func DriverMissing(ctx context.Context, reader client.Reader, cluster *v1alpha1.PeerCacheCluster) (bool, error) {
	if !plan.SocketByDriver(cluster.Spec.Injection) {
		return false, nil
	}
	driver := csiDriver()
	err := reader.Get(ctx, client.ObjectKey{Name: plan.CSIDriver}, driver)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil && !apierrors.IsForbidden(err): // a caller without the right to read it, such as a user of kubectl, assumes that it exists
		return false, fmt.Errorf("reading CSIDriver %s: %w", plan.CSIDriver, err)
	default:
		return false, nil
	}
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
