// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/preflight"
)

const (
	// engineGrace is how long a pod that is ready may take to attach: without a readiness probe it is ready while it loads its model.
	engineGrace = 10 * time.Minute
	// lossGrace is how long engines may be away before that is told: they attach again some seconds after a member restarts.
	lossGrace = 2 * time.Minute
)

// The reasons of EnginesAttached while it is False.
const (
	reasonNoMember    = "NoMemberThere"
	reasonNotAttached = "NotAttached"
	reasonPodsBlocked = "PodsBlocked"
)

// EngineMemory is what was seen of engines: machines all of whose engines were attached, and since when some are missing.
type EngineMemory struct {
	complete     map[string]bool
	missingSince time.Time
}

// onMachine are the engines on one machine that should be attached by now.
type onMachine struct {
	machine  string
	pods     []string
	ranks    int
	attached int
	since    time.Time // when the first of the pods was ready
}

// enginesAttached compares the ranks of SGLang that should be attached with what members report. It is empty where nobody looks
// for engines, and while an answer may still come.
func enginesAttached(seen *Observed, h health, memory *EngineMemory, now time.Time) []metav1.Condition {
	const kind = v1alpha1.ConditionEnginesAttached
	if seen.Engines == nil {
		return nil
	}
	before := meta.FindStatusCondition(seen.Cluster.Status.Conditions, kind)
	if c := h.unknownReason(kind); c != nil && (c.Reason == ReasonPlanOnly || c.Reason == reasonNotHeard) {
		if h.view.Hold && c.Reason == reasonNotHeard && before != nil {
			return nil
		}
		return []metav1.Condition{*c}
	}
	if mode := seen.Cluster.Spec.Injection.Mode; mode == v1alpha1.InjectionSidecar || mode == v1alpha1.InjectionEmbedded {
		return []metav1.Condition{newCondition(kind, metav1.ConditionTrue, "NotApplicable", "each SGLang pod has a member of its own, which "+
			"status.activeMembers counts")}
	}
	if len(seen.Engines) == 0 {
		*memory = EngineMemory{}
		return []metav1.Condition{newCondition(kind, metav1.ConditionTrue, "NoEngines", "no connected SGLang pod is on a machine")}
	}
	due := dueEngines(seen, now)
	away, missing := shortages(due, seen)
	missing = memory.settled(missing, due, before, now)
	var reason string
	var texts []string
	say := func(why, text string) {
		reason, texts = cmp.Or(reason, why), append(texts, text)
	}
	if len(away) > 0 {
		say(reasonNoMember, describe(away, func(m onMachine) string { return m.names() + " on " + m.machine + m.ready() })+" run where no member does, and have no cache: let "+
			"spec.nodes.selector and tolerations take these machines in, or keep SGLang off them")
	}
	if len(missing) > 0 {
		say(reasonNotAttached, describe(missing, func(m onMachine) string {
			verb := "did not attach"
			if memory.complete[m.machine] {
				verb = "attached and left"
			}
			return fmt.Sprintf("%d of %d ranks on %s %s (%s)", m.ranks-m.attached, m.ranks, m.machine, verb, m.names()+m.ready())
		})+": the log of a rank has the error (peercache), or SGLang is still starting")
	}
	if blocked := blockedEngines(seen.Engines, now); len(blocked) > 0 {
		say(reasonPodsBlocked, joinNames(blocked, len(blocked))+" wait for a volume or their sandbox: kubectl describe pod shows what "+
			"(FailedMount)")
	}
	if reason != "" {
		return []metav1.Condition{newCondition(kind, metav1.ConditionFalse, reason, strings.Join(texts, "; "))}
	}
	return []metav1.Condition{newCondition(kind, metav1.ConditionTrue, "Attached", fmt.Sprintf("ranks that should be attached by now are: %d of "+
		"%d pods", ranksOf(due), len(seen.Engines)))}
}

// dueEngines are the engines of each machine that have been ready for long, by machine. Drained machines have no cache on purpose.
func dueEngines(seen *Observed, now time.Time) []onMachine {
	drained := map[string]bool{}
	for i := range seen.Machines {
		drained[seen.Machines[i].Name] = preflight.IsDrained(&seen.Machines[i])
	}
	found := map[string]*onMachine{}
	for _, e := range seen.Engines {
		if e.State != inject.EngineReady || now.Sub(e.Since) < engineGrace || drained[e.Machine] {
			continue
		}
		m := found[e.Machine]
		if m == nil {
			m = &onMachine{machine: e.Machine, since: e.Since}
			found[e.Machine] = m
		}
		m.pods, m.ranks = append(m.pods, e.Pod), m.ranks+e.Ranks
		if e.Since.Before(m.since) {
			m.since = e.Since
		}
	}
	var list []onMachine
	for _, machine := range slices.Sorted(maps.Keys(found)) {
		list = append(list, *found[machine])
	}
	return list
}

// shortages are the machines without a member, and those whose members have fewer engines than there are ranks.
func shortages(due []onMachine, seen *Observed) (away, missing []onMachine) {
	members := map[string][]string{}
	for i := range seen.Pods {
		pod := &seen.Pods[i]
		members[pod.Spec.NodeName] = append(members[pod.Spec.NodeName], memberOf(pod))
	}
	for _, m := range due {
		if len(members[m.machine]) == 0 {
			away = append(away, m)
			continue
		}
		for _, id := range members[m.machine] {
			m.attached += int(min(seen.Fleet.Engines[id], 1<<20))
		}
		if m.attached < m.ranks {
			missing = append(missing, m)
		}
	}
	return away, missing
}

// memberOf is the name of the member in a pod.
func memberOf(pod *corev1.Pod) string {
	return pod.Spec.NodeName + "." + pod.Labels[v1alpha1.LabelGroup]
}

// settled returns what is missing, once it has been for a while, and remembers which machines were complete.
func (m *EngineMemory) settled(missing, due []onMachine, before *metav1.Condition, now time.Time) []onMachine {
	complete := map[string]bool{}
	for _, d := range due {
		short := slices.ContainsFunc(missing, func(other onMachine) bool { return other.machine == d.machine })
		complete[d.machine] = !short || m.complete[d.machine]
	}
	m.complete = complete
	if len(missing) == 0 {
		m.missingSince = time.Time{}
		return nil
	}
	if m.missingSince.IsZero() {
		m.missingSince = now
	}
	// An operator that has just started need not wait for what its predecessor has told.
	if told := before != nil && before.Reason == reasonNotAttached; !told && now.Sub(m.missingSince) < lossGrace {
		return nil
	}
	return missing
}

// blockedEngines names the pods that have been on a machine for long, and have not been able to start a container.
func blockedEngines(engines []inject.Engine, now time.Time) (names []string) {
	for _, e := range engines {
		if e.State == inject.EngineBlocked && !e.Since.IsZero() && now.Sub(e.Since) >= engineGrace {
			names = append(names, fmt.Sprintf("%s on %s since %s", e.Pod, e.Machine, clock(e.Since)))
		}
	}
	return names
}

func describe(list []onMachine, text func(onMachine) string) string {
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = text(m)
	}
	return joinNames(names, len(names))
}

// names are the first pod, and how many more there are.
func (m onMachine) names() string { return Pods{int32(len(m.pods)), m.pods[:1]}.String() } //nolint:gosec // a number of pods

// ready says since when the first of the pods has been.
func (m onMachine) ready() string { return ", ready since " + clock(m.since) }

// clock does not change from pass to pass, as an age would.
func clock(at time.Time) string { return at.UTC().Format("2 Jan 15:04 MST") }

func ranksOf(due []onMachine) (sum int) {
	for _, m := range due {
		sum += m.ranks
	}
	return sum
}
