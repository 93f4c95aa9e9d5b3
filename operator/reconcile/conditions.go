// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// monitoringGroup is the API group of the Prometheus Operator.
const monitoringGroup = "monitoring.coreos.com"

// reasonPaused is that of Progressing while an update waits for the hit ratio.
const reasonPaused = "Paused"

// maxFaults bounds a message: one image that cannot be pulled is a fault of every node.
const maxFaults = 3

// sight is what conditions are made of.
type sight struct {
	problem  *plan.Problem        // the spec cannot be put into effect
	planned  *v1alpha1.PlanStatus // the spec is only to be looked at
	checks   []metav1.Condition   // of preflight
	progress rollout
	update   update
	faults   []fault
}

// judge turns what was seen into conditions. Every message of one that is not as it should be says what to do.
func judge(s sight) []metav1.Condition {
	conditions := []metav1.Condition{configAccepted(s.problem, s.planned)}
	conditions = append(conditions, preflighted(s.checks)...)
	if s.planned != nil {
		return append(conditions, onlyPlanned(*s.planned, s.faults)...)
	}
	return append(conditions,
		progressing(s),
		degraded(s.faults),
		ready(s))
}

// preflighted are the conditions of preflight, which does not run for a spec that cannot be put into effect.
func preflighted(checks []metav1.Condition) []metav1.Condition {
	if checks != nil {
		return checks
	}
	var unknown []metav1.Condition
	for _, kind := range []string{v1alpha1.ConditionNetworksResolved, v1alpha1.ConditionDevicesAvailable} {
		unknown = append(unknown, is(kind, metav1.ConditionUnknown, "ConfigNotAccepted",
			"this is looked at once the spec is accepted"))
	}
	return unknown
}

// monitoringReady says whether what monitoring asks for could be made.
func monitoringReady(p *pass) metav1.Condition {
	const kind = v1alpha1.ConditionMonitoringReady
	asked := p.cluster.Spec.Monitoring
	var missing []string
	for _, absent := range p.absent {
		if absent.Group == monitoringGroup {
			missing = append(missing, absent.Kind)
		}
	}
	switch {
	case len(missing) > 0:
		return is(kind, metav1.ConditionFalse, "PrometheusOperatorMissing", fmt.Sprintf(
			"spec.monitoring asks for %s, which the API server does not know: install the Prometheus Operator, and the operator "+
				"makes it within half a minute, or write None", strings.Join(missing, " and ")))
	case p.planned != nil:
		return is(kind, metav1.ConditionUnknown, reasonPlanOnly, "nothing is made in mode: Plan")
	case p.problem != nil:
		return is(kind, metav1.ConditionUnknown, "ConfigNotAccepted", "this is looked at once the spec is accepted")
	case asked.Scrape == v1alpha1.ScrapeNone && asked.Rules == v1alpha1.RulesNone && asked.Dashboards == v1alpha1.DashboardsNone:
		return is(kind, metav1.ConditionTrue, "NotNeeded", "spec.monitoring asks for nothing")
	default:
		return is(kind, metav1.ConditionTrue, "Made", fmt.Sprintf("scrape: %s, rules: %s, dashboards: %s",
			asked.Scrape, asked.Rules, asked.Dashboards))
	}
}

func onlyPlanned(planned v1alpha1.PlanStatus, faults []fault) []metav1.Condition {
	return []metav1.Condition{
		is(v1alpha1.ConditionProgressing, metav1.ConditionFalse, reasonPlanOnly, "nothing is changed in mode: Plan"),
		degraded(faults),
		is(v1alpha1.ConditionReady, metav1.ConditionFalse, reasonPlanOnly, fmt.Sprintf(
			"%d nodes on %d machines would hold %s of pages, by %d changes: see status.plan, and write mode: Apply to make them",
			planned.Nodes, planned.Machines, planned.Pool.String(), len(planned.Changes))),
	}
}

func configAccepted(problem *plan.Problem, planned *v1alpha1.PlanStatus) metav1.Condition {
	if problem != nil {
		return is(v1alpha1.ConditionConfigAccepted, metav1.ConditionFalse, problem.Reason, problem.Message)
	}
	if planned != nil {
		return is(v1alpha1.ConditionConfigAccepted, metav1.ConditionTrue, "Planned", "the spec can be put into effect")
	}
	return is(v1alpha1.ConditionConfigAccepted, metav1.ConditionTrue, "Accepted", "the spec is in effect")
}

func progressing(s sight) metav1.Condition {
	const kind = v1alpha1.ConditionProgressing
	progress := s.progress
	starting := progress.ready+int32(len(s.faults)) < progress.desired //nolint:gosec // bounded by the number of pods
	switch {
	case progress.pending:
		return is(kind, metav1.ConditionTrue, "WaitingForController",
			"the DaemonSet controller has not seen the latest change yet")
	case s.problem != nil:
		return is(kind, metav1.ConditionFalse, "ConfigNotAccepted", "nothing is changed until the spec is accepted")
	case s.update.paused():
		return is(kind, metav1.ConditionTrue, reasonPaused, fmt.Sprintf("%s; %s", progress.current(), s.update.pauseText()))
	case progress.updated < progress.desired && !s.update.byHand():
		return is(kind, metav1.ConditionTrue, "RollingOut", progress.current())
	case progress.updated < progress.desired && !starting:
		return is(kind, metav1.ConditionFalse, "WaitingForDeletion", progress.current()+"; spec.update.strategy is OnDelete: delete "+
			"the pods of the others to have them replaced (their label controller-revision-hash tells them apart)")
	case starting:
		return is(kind, metav1.ConditionTrue, "Starting", fmt.Sprintf("%s nodes are ready", progress.nodes()))
	default:
		return is(kind, metav1.ConditionFalse, "Settled", "no node is being started or replaced")
	}
}

func degraded(faults []fault) metav1.Condition {
	const kind = v1alpha1.ConditionDegraded
	if len(faults) == 0 {
		return is(kind, metav1.ConditionFalse, "NoFaults", "no node is broken")
	}
	return is(kind, metav1.ConditionTrue, faults[0].reason, listFaults(faults))
}

func ready(s sight) metav1.Condition {
	const kind = v1alpha1.ConditionReady
	progress, faults := s.progress, s.faults
	switch {
	case s.problem != nil:
		return is(kind, metav1.ConditionFalse, "ConfigNotAccepted", s.problem.Message)
	case progress.pending:
		return is(kind, metav1.ConditionFalse, "WaitingForController",
			"the DaemonSet controller has not seen the latest change yet")
	case progress.desired == 0 && len(progress.away) > 0:
		return is(kind, metav1.ConditionFalse, "AllDrained", fmt.Sprintf("every machine that would take part is drained (%s): bring one "+
			"back with kubectl peercache undrain, or take its label %s away", listed(progress.away, len(progress.away)), v1alpha1.LabelDrain))
	case progress.desired == 0:
		return is(kind, metav1.ConditionFalse, "NoNodes", "no Kubernetes node takes part: label one so that it matches "+
			"spec.nodes.selector, or tolerate its taints with spec.nodes.tolerations")
	case progress.complete():
		return is(kind, metav1.ConditionTrue, "AllNodesReady", fmt.Sprintf("%s nodes serve%s", progress.nodes(),
			progress.drainedText()))
	case s.update.byHand() && progress.ready == progress.desired:
		return is(kind, metav1.ConditionTrue, "AllNodesReady", fmt.Sprintf("%s nodes serve; %s%s", progress.nodes(), progress.current(),
			progress.drainedText()))
	case len(faults) > 0:
		return is(kind, metav1.ConditionFalse, "NodesBroken", fmt.Sprintf(
			"%s nodes are ready; %s", progress.nodes(), listFaults(faults)))
	case progress.updated < progress.desired && !s.update.byHand():
		return is(kind, metav1.ConditionFalse, "RollingOut", progress.current())
	default:
		return is(kind, metav1.ConditionFalse, "NodesStarting", fmt.Sprintf("%s nodes are ready", progress.nodes()))
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
	return cut(strings.Join(texts, "; "), 4096) // the API allows 32768
}

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
