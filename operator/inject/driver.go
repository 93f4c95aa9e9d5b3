// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;list;watch

// DriverMissing says whether the pods of a cluster are to get their sockets from a CSI driver that is not installed. With
// such a volume they would never start.
func DriverMissing(ctx context.Context, reader client.Reader, cluster *v1alpha1.PeerCacheCluster) (bool, error) {
	if !plan.SocketByDriver(cluster.Spec.Injection) {
		return false, nil
	}
	driver := &metav1.PartialObjectMetadata{}
	driver.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("CSIDriver"))
	err := reader.Get(ctx, client.ObjectKey{Name: plan.CSIDriver}, driver)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil && !apierrors.IsForbidden(err): // who may not look, such as a user of kubectl, hopes for the best
		return false, fmt.Errorf("reading CSIDriver %s: %w", plan.CSIDriver, err)
	default:
		return false, nil
	}
}

// Gather is FactsFor, and what has to be asked for besides.
func Gather(
	ctx context.Context, reader client.Reader, cluster *v1alpha1.PeerCacheCluster, podNamespace string, options Options,
) (Facts, error) {
	facts := FactsFor(cluster, podNamespace, options)
	var err error
	facts.DriverMissing, err = DriverMissing(ctx, reader, cluster)
	return facts, err
}
