// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/preflight"
)

// fieldMachine selects pods by where they run.
const fieldMachine = "spec.nodeName"

var dataPlane = client.MatchingLabels{plan.LabelManagedBy: plan.ManagedBy, plan.LabelComponent: plan.ComponentNode}

// resident is a node of a PeerCacheCluster on a machine where it belongs, whether it runs or not.
type resident struct {
	cluster *v1alpha1.PeerCacheCluster
	owner   types.UID // its DaemonSet
	member  string
	pod     *corev1.Pod // nil where there is none
}

// residents finds them in all namespaces: a machine is drained as a whole.
func (a *access) residents(ctx context.Context, machine *corev1.Node) ([]resident, error) {
	var clusters v1alpha1.PeerCacheClusterList
	if err := a.List(ctx, &clusters); err != nil {
		return nil, explain(err, "listing the PeerCacheClusters of all namespaces")
	}
	var daemonSets appsv1.DaemonSetList
	if err := a.List(ctx, &daemonSets, dataPlane); err != nil {
		return nil, explain(err, "listing the DaemonSets of all namespaces")
	}
	pods, err := a.podsOn(ctx, machine.Name)
	if err != nil {
		return nil, err
	}
	labelled := machine.DeepCopy()
	labelled.Labels = maps.Clone(labelled.Labels)
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	labelled.Labels[v1alpha1.LabelDrain] = v1alpha1.DrainNow
	var found []resident
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		for j := range daemonSets.Items {
			daemonSet := &daemonSets.Items[j]
			if !metav1.IsControlledBy(daemonSet, cluster) {
				continue
			}
			one := resident{cluster, daemonSet.UID, machine.Name + "." + daemonSet.Labels[v1alpha1.LabelGroup], pods[daemonSet.UID]}
			leaves := len(preflight.Drained(daemonSet, []corev1.Node{*labelled})) > 0
			if one.pod != nil && one.pod.DeletionTimestamp == nil && !leaves {
				return nil, fmt.Errorf("pod %s/%s would stay on %s, because DaemonSet %s does not heed the label %s: upgrade the operator, "+
					"and look at condition ConfigAccepted of %s", one.pod.Namespace, one.pod.Name, machine.Name, daemonSet.Name,
					v1alpha1.LabelDrain, identityOf(cluster))
			}
			if leaves {
				found = append(found, one)
			}
		}
	}
	slices.SortFunc(found, func(a, b resident) int {
		return cmp.Or(cmp.Compare(identityOf(a.cluster).String(), identityOf(b.cluster).String()), cmp.Compare(a.member, b.member))
	})
	return found, nil
}

// podsOn are the data-plane pods of a machine by their DaemonSets. One that is being deleted gives way to its successor.
func (a *access) podsOn(ctx context.Context, machine string) (map[types.UID]*corev1.Pod, error) {
	var list corev1.PodList
	if err := a.List(ctx, &list, dataPlane, client.MatchingFields{fieldMachine: machine}); err != nil {
		return nil, explain(err, "listing the pods of all namespaces on "+machine)
	}
	pods := map[types.UID]*corev1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			continue
		}
		if known := pods[owner.UID]; known == nil || known.DeletionTimestamp != nil {
			pods[owner.UID] = pod
		}
	}
	return pods, nil
}

// describe asks the residents what goes with them.
func (p *plugin) describe(ctx context.Context, a *access, found []resident) []drainMember {
	members := make([]drainMember, 0, len(found))
	here := map[types.UID]int32{} // how many of a cluster's ready nodes are on this machine
	for _, one := range found {
		if one.pod != nil && podReady(one.pod) {
			here[one.cluster.UID]++
		}
	}
	for _, one := range found {
		m := drainMember{Cluster: identityOf(one.cluster), Member: one.member, State: stateAbsent,
			OtherNodes: max(0, one.cluster.Status.ReadyNodes-here[one.cluster.UID])}
		if one.pod == nil {
			members = append(members, m)
			continue
		}
		m.Pod = one.pod.Name
		got := p.ask(ctx, a, one.cluster, []*corev1.Pod{one.pod})[0]
		if got.err != nil {
			m.State, m.Note = stateUnknown, got.err.Error()
		} else {
			m.State, m.Engines = got.status.Node.State, len(got.status.Engines)
			m.UsedBytes, m.CapacityBytes = got.status.Pool.UsedBytes, got.status.Pool.CapacityBytes
		}
		members = append(members, m)
	}
	return members
}
