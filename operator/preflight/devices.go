// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// maxNamed bounds the machines in a message: a missing plug-in is usually missing on every machine.
const maxNamed = 3

// shortage is something that a machine or network lacks.
type shortage struct{ reason, text string }

// devicesAvailable compares the requests of nodes with what machines offer: devices, huge pages, memory, cores.
func devicesAvailable(cluster *v1alpha1.PeerCacheCluster, desired *plan.Desired, facts Facts, at placed) metav1.Condition {
	const kind = v1alpha1.ConditionDevicesAvailable
	if problem := missingTemplate(cluster, desired.Groups, facts); problem != nil {
		return newCondition(kind, metav1.ConditionFalse, problem.reason, problem.text)
	}
	if facts.MachinesUnread {
		return newCondition(kind, metav1.ConditionUnknown, "MachinesUnread", "the operator watches some namespaces only (--watch-namespaces), "+
			"and reads no machines: what a machine lacks is in the events of the pods that do not start there")
	}
	if len(at.machines) == 0 && slices.ContainsFunc(desired.DaemonSets, func(d *appsv1.DaemonSet) bool {
		return len(Drained(d, facts.Machines)) > 0
	}) {
		return newCondition(kind, metav1.ConditionUnknown, "AllDrained", "every machine that would take part is drained")
	}
	if len(at.machines) == 0 {
		return newCondition(kind, metav1.ConditionUnknown, "NoMachines", "no Kubernetes node takes part yet")
	}
	var short []shortage
	for _, machine := range at.machines {
		if found := shortageOf(machine, desired, at.groups[machine]); found != nil {
			short = append(short, *found)
		}
	}
	if len(short) == 0 {
		return newCondition(kind, metav1.ConditionTrue, "Available", fmt.Sprintf("%s what %s members request%s%s",
			count(len(at.machines), "machine offers", "machines offer"), possessive(len(at.machines)),
			unpooledMachines(cluster, facts.Machines, at), warnings(cluster.Spec, desired.Groups, at)))
	}
	texts := make([]string, 0, maxNamed+1)
	for i, s := range short {
		if i == maxNamed {
			texts = append(texts, fmt.Sprintf("and %d more", len(short)-maxNamed))
			break
		}
		texts = append(texts, s.text)
	}
	return newCondition(kind, metav1.ConditionFalse, short[0].reason, fmt.Sprintf("%d of %s: %s",
		len(short), count(len(at.machines), "machine lacks something", "machines lack something"), strings.Join(texts, "; ")))
}

// shortageOf returns the first resource that a machine lacks for all its nodes together, or nil.
func shortageOf(machine *corev1.Node, desired *plan.Desired, groups []int) *shortage {
	wanted := corev1.ResourceList{}
	taken := map[string]plan.Group{}
	for _, i := range groups {
		group := desired.Groups[i]
		if other, twice := taken[group.Name]; twice {
			return &shortage{"PoolsOverlap", fmt.Sprintf(
				"machine %s matches node pools %q and %q, which both have a group %q: change its labels or a nodePools[].selector",
				machine.Name, other.Pool.Name, group.Pool.Name, group.Name)}
		}
		taken[group.Name] = group
		add(wanted, requests(desired.DaemonSets[i]))
	}
	for _, name := range slices.SortedFunc(maps.Keys(wanted), byImportance) {
		have, want := machine.Status.Allocatable[name], wanted[name]
		if have.Cmp(want) < 0 {
			reason, advice := adviceFor(name)
			return &shortage{reason, fmt.Sprintf("machine %s offers %s %s of %s: %s",
				machine.Name, have.String(), name, want.String(), advice)}
		}
	}
	return nil
}

// byImportance puts devices first: a machine without them was probably selected by mistake.
func byImportance(a, b corev1.ResourceName) int {
	rank := func(name corev1.ResourceName) int {
		switch {
		case strings.Contains(string(name), "/"):
			return 0
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			return 1
		default:
			return 2
		}
	}
	if difference := rank(a) - rank(b); difference != 0 {
		return difference
	}
	return strings.Compare(string(a), string(b))
}

func adviceFor(name corev1.ResourceName) (reason, advice string) {
	switch {
	case strings.Contains(string(name), "/"):
		return "DeviceMissing", "let the device plugin offer it there, correct the rail's resourceName, or take the machine out " +
			"with nodes.selector"
	case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return "HugePagesShort", "reserve huge pages on it and restart its kubelet, lower memory.pool, or write hugePages: None"
	case name == corev1.ResourceMemory:
		return "MemoryShort", "lower memory.pool or resources.memoryOverhead, or take the machine out with nodes.selector"
	case name == corev1.ResourceCPU:
		return "CPUShort", "lower resources.cpu, or take the machine out with nodes.selector"
	default:
		return "ResourceShort", "lower the request in podTemplate, or take the machine out with nodes.selector"
	}
}

// missingTemplate detects a missing ResourceClaimTemplate, without which no pod of a group can be created.
func missingTemplate(cluster *v1alpha1.PeerCacheCluster, groups []plan.Group, facts Facts) *shortage {
	_, templates := References(cluster, groups)
	if len(templates) == 0 {
		return nil
	}
	if !facts.DRA {
		return &shortage{"DRAUnavailable", "rails are attached by DRA, but this Kubernetes does not serve resource.k8s.io/v1: " +
			"use Kubernetes 1.34 or later, or another rails[].attachment"}
	}
	var missing []string
	for _, name := range templates {
		if !facts.Templates[name] {
			missing = append(missing, name.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &shortage{"ClaimTemplateMissing", fmt.Sprintf(
		"ResourceClaimTemplate %s does not exist in namespace %s: create it, or correct rails[].dra.resourceClaimTemplate",
		strings.Join(missing, ", "), cluster.Namespace)}
}

// unpooledMachines names machines that spec.nodes selects but no pool.
func unpooledMachines(cluster *v1alpha1.PeerCacheCluster, machines []corev1.Node, at placed) string {
	if len(cluster.Spec.NodePools) == 0 || len(cluster.Spec.Nodes.Selector) == 0 {
		return ""
	}
	var names []string
	for i := range machines {
		machine := &machines[i]
		if at.groups[machine] == nil && !IsDrained(machine) && matches(cluster.Spec.Nodes.Selector, machine.Labels) {
			names = append(names, machine.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("; %s match nodes.selector but run no member: see whether their labels and taints fit one of nodePools", firstNames(names))
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if have, there := labels[key]; !there || have != value {
			return false
		}
	}
	return true
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func possessive(n int) string {
	if n == 1 {
		return "its"
	}
	return "their"
}
