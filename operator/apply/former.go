// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// A cluster that is deleted and at once created again finds the objects of the former cluster: the garbage collector
// deletes them after their owner, and takes a moment.

const (
	// FormerTimeout is how long a new cluster waits for the garbage collector before a condition says so.
	FormerTimeout = 30 * time.Second
	// FormerPoll is the time between two looks while it waits. Events of deletions trigger passes, too.
	FormerPoll = time.Second
)

// ErrFormerObjects says that objects of a former cluster are still there. The pass ends without a write and without a
// condition.
var ErrFormerObjects = errors.New("objects of an earlier cluster of this name are being deleted")

// ownedByFormer says whether an object belongs to another cluster of the same name, which must have been deleted.
func ownedByFormer(object metav1.Object, cluster *v1alpha1.PeerCacheCluster) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID != cluster.UID && owner.Name == cluster.Name && owner.Kind == "PeerCacheCluster" &&
		owner.APIVersion == v1alpha1.GroupVersion.String() && object.GetNamespace() == cluster.Namespace
}

// waitForFormer looks for such objects before the first write for a new cluster. An object that was created before the
// wait would be forgotten, because the status is not written meanwhile.
func (a *Applier) waitForFormer(ctx context.Context, run *Run, desired *plan.Desired) error {
	if run.Cluster.Status.ObservedGeneration > 0 {
		return nil
	}
	for _, object := range slices.Concat(desired.Extras, desired.Objects()) {
		if _, err := a.existing(ctx, run, object); err != nil && !KindMissing(err) && !rights.MaySkip(err, object) {
			return err
		}
	}
	return nil
}

// formerProblem is the error for an object of a former cluster.
func (a *Applier) formerProblem(name string, cluster *v1alpha1.PeerCacheCluster) error {
	if a.Now().Sub(cluster.CreationTimestamp.Time) < FormerTimeout {
		return ErrFormerObjects
	}
	return &plan.Problem{Reason: "NameConflict", Message: fmt.Sprintf("%s belongs to an earlier PeerCacheCluster of this name, and "+
		"Kubernetes has not deleted it: check that kube-controller-manager runs, or delete the object", name)}
}
