// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// A cluster that is deleted and made anew at once finds the objects of the former one: the garbage collector deletes them
// after their owner, and takes a moment.

const (
	// clearedWithin is how long a new cluster waits for that before it says so.
	clearedWithin = 30 * time.Second
	// whileCleared is how often it looks. Deletions call for a pass, too.
	whileCleared = time.Second
)

// errFormer says that nothing can be made yet, and nothing said.
var errFormer = errors.New("objects of a former cluster of this name are being deleted")

// ofFormer says whether an object belongs to another cluster of the same name, which must be gone.
func ofFormer(object metav1.Object, cluster *v1alpha1.PeerCacheCluster) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID != cluster.UID && owner.Name == cluster.Name && owner.Kind == "PeerCacheCluster" &&
		owner.APIVersion == v1alpha1.GroupVersion.String() && object.GetNamespace() == cluster.Namespace
}

// awaitFormer looks for such objects before a new cluster's first write: what was made before one is met would not be
// remembered, because nothing is said meanwhile.
func (r *Reconciler) awaitFormer(ctx context.Context, p *pass, desired *plan.Desired) error {
	if p.cluster.Status.ObservedGeneration != 0 {
		return nil
	}
	for _, object := range slices.Concat(desired.Extras, desired.Objects()) {
		if _, err := r.present(ctx, p, object); err != nil && !kindMissing(err) {
			return err
		}
	}
	return nil
}

// former is the error for such an object.
func (r *Reconciler) former(name string, cluster *v1alpha1.PeerCacheCluster) error {
	if r.Now().Sub(cluster.CreationTimestamp.Time) < clearedWithin {
		return errFormer
	}
	return &plan.Problem{Reason: "NameConflict", Message: fmt.Sprintf("%s belongs to a former PeerCacheCluster of this name, and "+
		"Kubernetes has not deleted it: look whether kube-controller-manager runs, or delete it", name)}
}
