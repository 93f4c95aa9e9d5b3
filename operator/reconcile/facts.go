// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// withoutCopies makes lists return the cache's own objects, which nobody may modify. Copying thousands of pods and
// machines would be most of the cost of a pass.
const withoutCopies = client.UnsafeDisableDeepCopy

// gather reads the DaemonSets of the cluster's nodes, of what removes their files, the nodes' pods and all machines from the
// cache. Objects that carry the cluster's label but are not owned by it are left out. It also looks for the CSI driver when injection.socket asks
// for it.
func (r *Reconciler) gather(ctx context.Context, p *pass) error {
	scope := []client.ListOption{
		client.InNamespace(p.Cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: p.Cluster.Name},
	}
	var daemonSets appsv1.DaemonSetList
	if err := r.Client.List(ctx, &daemonSets, scope...); err != nil {
		return fmt.Errorf("listing DaemonSets of %s: %w", client.ObjectKeyFromObject(p.Cluster), err)
	}
	p.DaemonSets, p.poolRemovals = map[string]*appsv1.DaemonSet{}, map[string]*appsv1.DaemonSet{}
	owners, removers := map[types.UID]bool{}, map[types.UID]bool{}
	for i := range daemonSets.Items {
		daemonSet := &daemonSets.Items[i]
		if !metav1.IsControlledBy(daemonSet, p.Cluster) {
			continue
		}
		switch daemonSet.Labels[plan.LabelComponent] {
		case plan.ComponentNode:
			p.DaemonSets[daemonSet.Name] = daemonSet
			owners[daemonSet.UID] = true
		case plan.ComponentPoolFile:
			p.poolRemovals[daemonSet.Name] = daemonSet
			removers[daemonSet.UID] = true
		}
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, append(scope, withoutCopies)...); err != nil {
		return fmt.Errorf("listing pods of %s: %w", client.ObjectKeyFromObject(p.Cluster), err)
	}
	p.Pods, p.PoolRemovalPods = nil, nil
	for _, pod := range pods.Items {
		switch owner := metav1.GetControllerOf(&pod); {
		case owner == nil:
		case owners[owner.UID]:
			p.Pods = append(p.Pods, pod)
		case removers[owner.UID]:
			p.PoolRemovalPods = append(p.PoolRemovalPods, pod)
		}
	}
	if r.Injection.Namespaced() { // it may read neither machines nor drivers
		return nil
	}
	var machines corev1.NodeList
	if err := r.Client.List(ctx, &machines, withoutCopies); err != nil {
		return fmt.Errorf("listing Kubernetes nodes: %w", err)
	}
	p.Machines = machines.Items
	var err error
	if p.driverMissing, err = inject.DriverMissing(ctx, r.Client, p.Cluster); err != nil {
		return err
	}
	if p.Cluster.Spec.Injection.By == v1alpha1.InjectionByPolicy {
		p.limits, err = inject.Limits(ctx, r.Client, p.Cluster.Namespace)
	}
	return err
}
