// SPDX-License-Identifier: Apache-2.0

// Package preflight decides, before any pod runs, whether the machines and networks of a Kubernetes cluster can run a plan, and
// what to change where they cannot.
//
//	report := preflight.Check(cluster, desired, facts)
//
// The package is pure: operator/reconcile/preflight.go gathers the facts, and References names the objects to read. A shortage
// does not stop the operator from applying the plan. It becomes a condition, because machines and networks may still appear.
package preflight

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// Network has the parts of a NetworkAttachmentDefinition that preflight reads.
type Network struct {
	// Resource is the extended resource in the annotation of the network, or "".
	Resource string
}

// Facts are the known state of the Kubernetes cluster.
type Facts struct {
	Machines []corev1.Node
	// MachinesUnread says that the operator may not read machines, so Machines is empty whatever there is.
	MachinesUnread bool
	// Multus is true where the kind NetworkAttachmentDefinition exists.
	Multus bool
	// Networks has the networks of References that exist.
	Networks map[types.NamespacedName]Network
	// DRA is true where the API server serves resource.k8s.io/v1.
	DRA bool
	// Templates has the ResourceClaimTemplates of References that exist.
	Templates map[types.NamespacedName]bool
}

// Report is the result of Check.
type Report struct {
	// Conditions are NetworksResolved and DevicesAvailable.
	Conditions []metav1.Condition
	// SocketKernels names the machines whose kernels are too old for the CSI driver. It is "" where there is none, or no driver is
	// used.
	SocketKernels string
	// Plan is what would run where.
	Plan v1alpha1.PlanStatus
}

// References returns the NetworkAttachmentDefinitions and ResourceClaimTemplates to which the rails refer.
func References(cluster *v1alpha1.PeerCacheCluster, groups []plan.Group) (networks, templates []types.NamespacedName) {
	seen := map[types.NamespacedName]bool{}
	for _, group := range groups {
		for _, rail := range group.Rails {
			if rail.Network != nil && !seen[plan.NetworkOf(cluster, rail)] {
				networks = append(networks, plan.NetworkOf(cluster, rail))
				seen[plan.NetworkOf(cluster, rail)] = true
			}
		}
	}
	clear(seen)
	for _, group := range groups {
		for _, rail := range group.Rails {
			name := types.NamespacedName{Namespace: cluster.Namespace, Name: rail.Claim().ResourceClaimTemplate}
			if name.Name != "" && !seen[name] {
				templates = append(templates, name)
				seen[name] = true
			}
		}
	}
	return networks, templates
}

// Check compares a plan with the facts.
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

func newCondition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
