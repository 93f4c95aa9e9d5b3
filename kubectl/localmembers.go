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

// fieldMachine is the field selector for the machine of a pod.
const fieldMachine = "spec.nodeName"

var dataPlane = client.MatchingLabels{plan.LabelManagedBy: plan.ManagedBy, plan.LabelComponent: plan.ComponentNode}

// localMember is a member of a PeerCacheCluster on a machine where it belongs, with a running pod or without.
type localMember struct {
	cluster *v1alpha1.PeerCacheCluster
	owner   types.UID // UID of the DaemonSet
	member  string
	pod     *corev1.Pod // nil where no pod exists
}

// localMembers returns the members on a machine in all namespaces, because a drain affects all of them.
func (a *access) localMembers(ctx context.Context, machine *corev1.Node) ([]localMember, error) {
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
	var found []localMember
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		for j := range daemonSets.Items {
			daemonSet := &daemonSets.Items[j]
			if !metav1.IsControlledBy(daemonSet, cluster) {
				continue
			}
			one := localMember{cluster, daemonSet.UID, machine.Name + "." + daemonSet.Labels[v1alpha1.LabelGroup], pods[daemonSet.UID]}
			leaves := len(preflight.Drained(daemonSet, []corev1.Node{*labelled})) > 0
			if one.pod != nil && one.pod.DeletionTimestamp == nil && !leaves {
				return nil, fmt.Errorf("pod %s/%s would stay on %s, because DaemonSet %s ignores the label %s: upgrade the operator, "+
					"and see condition ConfigAccepted of %s", one.pod.Namespace, one.pod.Name, machine.Name, daemonSet.Name,
					v1alpha1.LabelDrain, identityOf(cluster))
			}
			if leaves {
				found = append(found, one)
			}
		}
	}
	slices.SortFunc(found, func(a, b localMember) int {
		return cmp.Or(cmp.Compare(identityOf(a.cluster).String(), identityOf(b.cluster).String()), cmp.Compare(a.member, b.member))
	})
	return found, nil
}

// podsOn returns the data-plane pods on a machine by the UIDs of their DaemonSets. A successor replaces a pod that is being
// deleted.
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

// describeMembers asks each member for its pages and engines.
func (p *plugin) describeMembers(ctx context.Context, a *access, found []localMember) []drainMember {
	members := make([]drainMember, 0, len(found))
	readyHere := map[types.UID]int32{} // ready nodes on this machine, by the UID of the cluster
	for _, one := range found {
		if one.pod != nil && podReady(one.pod) {
			readyHere[one.cluster.UID]++
		}
	}
	for _, one := range found {
		m := drainMember{Cluster: identityOf(one.cluster), Member: one.member, State: stateAbsent,
			Elsewhere: max(0, one.cluster.Status.ReadyMembers-readyHere[one.cluster.UID])}
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
