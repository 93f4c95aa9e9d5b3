// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// facts are what is there before a pass changes anything.
type facts struct {
	daemonSets map[string]*appsv1.DaemonSet // by name
	pods       []corev1.Pod
	machines   []corev1.Node // all of the Kubernetes cluster
}

// shared has lists hold the cache's own objects, which nobody may change. Copies of thousands of pods and machines in
// every pass would be most of what a pass costs.
const shared = client.UnsafeDisableDeepCopy

// gather reads the DaemonSets of the cluster's nodes, their pods and all machines from the cache. What merely carries the
// cluster's label but does not belong to it is left out. It also looks for the CSI driver, where that is to be used.
func (r *Reconciler) gather(ctx context.Context, p *pass) error {
	scope := []client.ListOption{
		client.InNamespace(p.cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: p.cluster.Name},
	}
	var daemonSets appsv1.DaemonSetList
	nodes := client.MatchingLabels{v1alpha1.LabelCluster: p.cluster.Name, plan.LabelComponent: plan.ComponentNode}
	if err := r.Client.List(ctx, &daemonSets, client.InNamespace(p.cluster.Namespace), nodes); err != nil {
		return fmt.Errorf("listing DaemonSets of %s: %w", client.ObjectKeyFromObject(p.cluster), err)
	}
	p.facts.daemonSets = map[string]*appsv1.DaemonSet{}
	owners := map[string]bool{}
	for i := range daemonSets.Items {
		daemonSet := &daemonSets.Items[i]
		if metav1.IsControlledBy(daemonSet, p.cluster) {
			p.facts.daemonSets[daemonSet.Name] = daemonSet
			owners[string(daemonSet.UID)] = true
		}
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, append(scope, shared)...); err != nil {
		return fmt.Errorf("listing pods of %s: %w", client.ObjectKeyFromObject(p.cluster), err)
	}
	p.facts.pods = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || !owners[string(owner.UID)]
	})
	var machines corev1.NodeList
	if err := r.Client.List(ctx, &machines, shared); err != nil {
		return fmt.Errorf("listing Kubernetes nodes: %w", err)
	}
	p.facts.machines = machines.Items
	var err error
	p.driverMissing, err = inject.DriverMissing(ctx, r.Client, p.cluster)
	return err
}
