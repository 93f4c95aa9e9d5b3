// SPDX-License-Identifier: Apache-2.0

// Package preflight says, before any pod runs, whether the machines and networks of a Kubernetes cluster can carry
// what was planned, and what to do where they cannot.
//
//	report := preflight.Check(cluster, desired, facts)
//
// It is pure: facts are gathered elsewhere (operator/reconcile/preflight.go), and References names what there is to
// gather. Nothing here keeps a cluster from being applied; a shortage becomes a condition, because machines and
// networks may still come.
package preflight

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// Network is what preflight looks at in a NetworkAttachmentDefinition.
type Network struct {
	// Resource is the extended resource that the network belongs to, by its annotation; "" if it names none.
	Resource string
}

// Facts are what is known about the Kubernetes cluster.
type Facts struct {
	Machines []corev1.Node
	// Multus says whether the kind NetworkAttachmentDefinition exists.
	Multus bool
	// Networks holds those of References that exist.
	Networks map[types.NamespacedName]Network
	// DRA says whether the API server serves resource.k8s.io/v1.
	DRA bool
	// Templates holds those ResourceClaimTemplates of References that exist.
	Templates map[types.NamespacedName]bool
}

// Report is the outcome.
type Report struct {
	// Conditions NetworksResolved and DevicesAvailable.
	Conditions []metav1.Condition
	// SocketKernels says which machines' kernels are too old for the CSI driver; "" when none is, or it is not asked for.
	SocketKernels string
	// Plan is what would run where.
	Plan v1alpha1.PlanStatus
}

// References lists what the rails refer to: NetworkAttachmentDefinitions and ResourceClaimTemplates.
func References(cluster *v1alpha1.PeerCacheCluster, groups []plan.Group) (networks, templates []types.NamespacedName) {
	seen := map[types.NamespacedName]bool{}
	for _, group := range groups {
		for _, rail := range group.Rails {
			if rail.Network != "" && !seen[plan.NetworkOf(cluster, rail)] {
				networks = append(networks, plan.NetworkOf(cluster, rail))
				seen[plan.NetworkOf(cluster, rail)] = true
			}
		}
	}
	clear(seen)
	for _, group := range groups {
		for _, rail := range group.Rails {
			name := types.NamespacedName{Namespace: cluster.Namespace, Name: rail.ResourceClaimTemplate}
			if rail.ResourceClaimTemplate != "" && !seen[name] {
				templates = append(templates, name)
				seen[name] = true
			}
		}
	}
	return networks, templates
}

// Check looks at everything.
func Check(cluster *v1alpha1.PeerCacheCluster, desired *plan.Desired, facts Facts) Report {
	placed := place(desired, facts.Machines)
	return Report{
		Conditions: []metav1.Condition{
			networksResolved(cluster, desired.Groups, facts, placed),
			devicesAvailable(cluster, desired, facts, placed),
		},
		SocketKernels: socketKernels(cluster.Spec, placed),
		Plan:          summarise(cluster.Spec, desired, placed),
	}
}

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
