// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
	"github.com/peercache/peercache/operator/truncate"
)

// ReasonPlanOnly is the reason of conditions that are not evaluated in mode: Plan.
const ReasonPlanOnly = "PlanOnly"

// reasonPaused is the reason of Progressing while an update waits for the hit ratio.
const reasonPaused = "Paused"

// notChecked is the message of conditions that are not evaluated for a spec that is not accepted.
const notChecked = "not checked until the spec is accepted: see condition ConfigAccepted"

// maxFaults bounds the faults that a message lists: an image that cannot be pulled is a fault of every node.
const maxFaults = 3

// conditionInputs is what the conditions of conditionsOf depend on.
type conditionInputs struct {
	problem  *plan.Problem        // why the spec cannot be put into effect; nil when it can
	planned  *v1alpha1.PlanStatus // in mode Plan only
	checks   []metav1.Condition   // of preflight
	progress rollout
	update   update
	faults   []fault
	// removalFaults are those of pods that remove the files of pools. Members serve without these.
	removalFaults []fault
	// discovery says that a ready pod hosts discovery.
	discovery bool
	// bypassed is the end of a message: plan.Bypass.
	bypassed string
	// unpatched says that the operator may not patch pods.
	unpatched bool
}

// conditionsOf evaluates the conditions that follow from spec, preflight and DaemonSets. Every message of a condition
// that needs attention names the remedy.
func conditionsOf(in conditionInputs) []metav1.Condition {
	conditions := []metav1.Condition{configAccepted(in)}
	conditions = append(conditions, preflightConditions(in.checks)...)
	if in.planned != nil {
		return append(conditions, planConditions(in)...)
	}
	return append(conditions,
		progressing(in),
		degraded(slices.Concat(in.faults, in.removalFaults)),
		available(in),
		ready(in))
}

// preflightConditions are the conditions of preflight, or Unknown ones when preflight did not run because the spec was
// not accepted.
func preflightConditions(checks []metav1.Condition) []metav1.Condition {
	if checks != nil {
		return checks
	}
	var unknown []metav1.Condition
	for _, kind := range []string{v1alpha1.ConditionNetworksResolved, v1alpha1.ConditionDevicesAvailable} {
		unknown = append(unknown, newCondition(kind, metav1.ConditionUnknown, "ConfigNotAccepted",
			notChecked))
	}
	return unknown
}

// monitoringReady says whether the objects that spec.monitoring requests exist.
func monitoringReady(seen *Observed) metav1.Condition {
	const kind = v1alpha1.ConditionMonitoringReady
	wanted := seen.Cluster.Spec.Monitoring
	var missing []string
	for _, unknown := range seen.UnknownKinds {
		if unknown.Group == rights.MonitoringGroup {
			missing = append(missing, unknown.Kind)
		}
	}
	forbidden := slices.IndexFunc(seen.ForbiddenKinds, func(kind schema.GroupKind) bool { return kind.Group == rights.MonitoringGroup })
	switch {
	case forbidden >= 0:
		return newCondition(kind, metav1.ConditionFalse, rights.ReasonForbidden, fmt.Sprintf("spec.monitoring asks for %s, which the operator has no permission to create: "+
			"%s, or write None", seen.ForbiddenKinds[forbidden].Kind, rights.GrantFor(seen.ForbiddenKinds[forbidden], seen.Cluster.Namespace)))
	case len(missing) > 0:
		return newCondition(kind, metav1.ConditionFalse, "PrometheusOperatorMissing", fmt.Sprintf(
			"spec.monitoring asks for %s, which the API server does not know: install the Prometheus Operator, and the operator "+
				"creates them within half a minute, or write None", strings.Join(missing, " and ")))
	case seen.Planned != nil:
		return newCondition(kind, metav1.ConditionUnknown, ReasonPlanOnly, "mode: Plan creates nothing")
	case seen.Problem != nil:
		return newCondition(kind, metav1.ConditionUnknown, "ConfigNotAccepted", notChecked)
	case wanted.Scrape == v1alpha1.ScrapeNone && wanted.Rules == v1alpha1.RulesNone && wanted.Dashboards == v1alpha1.DashboardsNone:
		return newCondition(kind, metav1.ConditionTrue, "NotNeeded", "spec.monitoring requests nothing")
	default:
		return newCondition(kind, metav1.ConditionTrue, "Made", fmt.Sprintf("scrape: %s, rules: %s, dashboards: %s",
			wanted.Scrape, wanted.Rules, wanted.Dashboards))
	}
}

func planConditions(in conditionInputs) []metav1.Condition {
	planned := in.planned
	return []metav1.Condition{
		newCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, ReasonPlanOnly, "mode: Plan changes nothing"),
		degraded(slices.Concat(in.faults, in.removalFaults)),
		available(in),
		newCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, ReasonPlanOnly, fmt.Sprintf(
			"%d members on %d machines would hold %s of pages, by %d changes: see status.plan, and write mode: Apply to make them",
			planned.Members, planned.Machines, planned.Pool.String(), len(planned.Changes))),
	}
}

func configAccepted(in conditionInputs) metav1.Condition {
	const kind = v1alpha1.ConditionConfigAccepted
	instead := ""
	if in.unpatched {
		instead = "; the operator has no permission to patch pods, so every member hosts discovery, for which 64 members are the most, and " +
			"update.strategy InPlace replaces pods as RollingUpdate does: set rbac.pods.enabled=true of the Helm chart to change that"
	}
	switch {
	case in.problem != nil:
		return newCondition(kind, metav1.ConditionFalse, in.problem.Reason, in.problem.Message)
	case in.planned != nil:
		return newCondition(kind, metav1.ConditionTrue, "Planned", "the spec can be put into effect"+instead)
	default:
		return newCondition(kind, metav1.ConditionTrue, "Accepted", "the spec is in effect"+instead)
	}
}

func progressing(in conditionInputs) metav1.Condition {
	const kind = v1alpha1.ConditionProgressing
	progress := in.progress
	broken := int32(0)
	for _, f := range in.faults {
		broken += f.members
	}
	starting := progress.ready+broken < progress.desired
	switch {
	case progress.pending:
		return newCondition(kind, metav1.ConditionTrue, "WaitingForController",
			"the DaemonSet controller has not seen the latest change yet")
	case in.problem != nil:
		return newCondition(kind, metav1.ConditionFalse, "ConfigNotAccepted", "nothing is changed until the spec is accepted")
	case in.update.paused():
		return newCondition(kind, metav1.ConditionTrue, reasonPaused, fmt.Sprintf("%s; %s", progress.updatedMessage(), in.update.pauseMessage()))
	case progress.updated < progress.desired && !in.update.onDelete():
		return newCondition(kind, metav1.ConditionTrue, "RollingOut", progress.updatedMessage())
	case progress.updated < progress.desired && !starting:
		return newCondition(kind, metav1.ConditionFalse, "WaitingForDeletion", progress.updatedMessage()+"; spec.update.strategy is OnDelete: delete "+
			"the pods of the remaining ones to have them replaced (their label controller-revision-hash differs)")
	case starting:
		return newCondition(kind, metav1.ConditionTrue, "Starting", fmt.Sprintf("%s members are ready", progress.members()))
	default:
		return newCondition(kind, metav1.ConditionFalse, "Settled", "no member is being started or replaced")
	}
}

func degraded(faults []fault) metav1.Condition {
	const kind = v1alpha1.ConditionDegraded
	if len(faults) == 0 {
		return newCondition(kind, metav1.ConditionFalse, "NoFaults", "no member is broken")
	}
	return newCondition(kind, metav1.ConditionTrue, faults[0].reason, listFaults(faults))
}

func ready(in conditionInputs) metav1.Condition {
	const kind = v1alpha1.ConditionReady
	progress, faults := in.progress, in.faults
	switch {
	case in.problem != nil:
		return newCondition(kind, metav1.ConditionFalse, "ConfigNotAccepted", in.problem.Message)
	case progress.pending:
		return newCondition(kind, metav1.ConditionFalse, "WaitingForController",
			"the DaemonSet controller has not seen the latest change yet")
	case progress.desired == 0 && len(progress.drainedMachines) > 0:
		return newCondition(kind, metav1.ConditionFalse, "AllDrained", fmt.Sprintf("every machine that would take part is drained (%s): bring one "+
			"back with kubectl peercache undrain, or take its label %s away", joinNames(progress.drainedMachines, len(progress.drainedMachines)), v1alpha1.LabelDrain))
	case progress.desired == 0:
		return newCondition(kind, metav1.ConditionFalse, "NoNodes", "no Kubernetes node takes part: label one so that it matches "+
			"spec.nodes.selector, or tolerate its taints with spec.nodes.tolerations")
	case progress.complete():
		return newCondition(kind, metav1.ConditionTrue, "AllMembersReady", fmt.Sprintf("%s members serve%s%s", progress.members(),
			progress.drainedMessage(), in.bypassed))
	case in.update.onDelete() && progress.ready == progress.desired:
		return newCondition(kind, metav1.ConditionTrue, "AllMembersReady", fmt.Sprintf("%s members serve; %s%s%s", progress.members(), progress.updatedMessage(),
			progress.drainedMessage(), in.bypassed))
	case len(faults) > 0:
		return newCondition(kind, metav1.ConditionFalse, "MembersBroken", fmt.Sprintf(
			"%s members are ready; %s", progress.members(), listFaults(faults)))
	case progress.updated < progress.desired && !in.update.onDelete():
		return newCondition(kind, metav1.ConditionFalse, "RollingOut", progress.updatedMessage())
	default:
		return newCondition(kind, metav1.ConditionFalse, "MembersStarting", fmt.Sprintf("%s members are ready", progress.members()))
	}
}

func listFaults(faults []fault) string {
	texts := make([]string, 0, maxFaults+1)
	for i, f := range faults {
		if i == maxFaults {
			texts = append(texts, fmt.Sprintf("and %d more", len(faults)-maxFaults))
			break
		}
		texts = append(texts, f.String())
	}
	return truncate.Text(strings.Join(texts, "; "), 4096) // the API allows 32768
}

func newCondition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
