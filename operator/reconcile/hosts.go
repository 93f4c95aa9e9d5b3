// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// lostAfter is how long a discovery host may be not ready before a ready pod takes its place. It is longer
	// than a restart of the container, which does not change the pod's address.
	lostAfter = 30 * time.Second
	// settledAfter is how long a pod must have been ready to take the place of a host that is well, for the sake of
	// spreading. One that comes and goes would otherwise have hosts moved each time. Half as long as the host is enough: in
	// a cluster that comes up, hosts move while its nodes look for them anyway, and each further move needs a pod that
	// has been ready for longer.
	settledAfter = 2 * time.Minute
)

// candidate is a pod that can host discovery.
type candidate struct {
	pod           *corev1.Pod
	machine, zone string
	host          bool // it has the label
	lost          bool // it is a host that has not been ready for too long
	ready         bool
	since         time.Duration // that it is ready, or is not
	draining      bool          // its machine is marked to be drained, so it ends soon
}

// chooseHosts decides which pods get the discovery label and which lose it. Hosts that are well stay; free places go to
// ready pods, then to running ones, each to where the fewest hosts are: on the machine (it may run pods of several
// groups), then in its zone; among equals to the oldest. Because every move costs the nodes a new look at the Service,
// a host that is well moves only where that makes them more even, and only to a pod that has settled. Pods that cannot
// host lose the label, and pods of machines that are drained host only where there are no others.
func chooseHosts(pods []corev1.Pod, machines []corev1.Node, replicas int, now time.Time) (add, remove []*corev1.Pod) {
	s := spread{left: hostCandidates(pods, machines, now), machines: map[string]int{}, zones: map[string]int{}}
	for range min(replicas, len(s.left)) {
		s.fill()
	}
	for s.improve() {
	}
	chosen := map[*corev1.Pod]bool{}
	for _, c := range s.chosen {
		chosen[c.pod] = true
		if !c.host {
			add = append(add, c.pod)
		}
	}
	for i := range pods {
		if pod := &pods[i]; isHost(pod) && !chosen[pod] && pod.DeletionTimestamp.IsZero() {
			remove = append(remove, pod)
		}
	}
	return add, remove
}

func hostCandidates(pods []corev1.Pod, machines []corev1.Node, now time.Time) []candidate {
	labels := make(map[string]map[string]string, len(machines))
	for i := range machines {
		labels[machines[i].Name] = machines[i].Labels
	}
	var candidates []candidate
	for i := range pods {
		pod := &pods[i]
		if !canHost(pod) {
			continue
		}
		machine := labels[pod.Spec.NodeName]
		c := candidate{pod: pod, machine: pod.Spec.NodeName, zone: machine[corev1.LabelTopologyZone], host: isHost(pod),
			draining: machine[v1alpha1.LabelDrain] == v1alpha1.DrainNow}
		if ready := condition(pod, corev1.PodReady); ready != nil {
			c.since = now.Sub(ready.LastTransitionTime.Time)
			c.ready = ready.Status == corev1.ConditionTrue
			c.lost = c.host && !c.ready && c.since >= lostAfter
		}
		candidates = append(candidates, c)
	}
	return candidates
}

// settledBeside says whether a pod may take the place of a host that is well.
func (c *candidate) settledBeside(host *candidate) bool {
	return c.ready && !c.draining && (c.since > settledAfter || host.ready && c.since >= host.since/2)
}

// rank orders candidates before they are spread: a host that is well, a ready pod, a host that is lost, any other
// running pod; then in the same order those that end soon.
func (c *candidate) rank() int {
	rank := 3
	switch {
	case c.host && !c.lost:
		rank = 0
	case c.ready:
		rank = 1
	case c.host:
		rank = 2
	}
	if c.draining {
		rank += 4
	}
	return rank
}

// spread counts the chosen hosts on each machine and in each zone.
type spread struct {
	chosen, left    []candidate
	machines, zones map[string]int
}

func (s *spread) count(c *candidate, by int) {
	s.machines[c.machine] += by
	s.zones[c.zone] += by
}

// crowd compares how many hosts are where the candidates are.
func (s *spread) crowd(a, b *candidate) int {
	return cmp.Or(cmp.Compare(s.machines[a.machine], s.machines[b.machine]), cmp.Compare(s.zones[a.zone], s.zones[b.zone]))
}

// best is the index of the candidate to be chosen next among those that may be, or -1.
func (s *spread) best(may func(c *candidate) bool) int {
	best := -1
	for i := range s.left {
		a := &s.left[i]
		if !may(a) {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		b := &s.left[best]
		if cmp.Or(cmp.Compare(a.rank(), b.rank()), s.crowd(a, b), a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
			strings.Compare(a.pod.Name, b.pod.Name)) < 0 {
			best = i
		}
	}
	return best
}

func (s *spread) fill() {
	i := s.best(func(*candidate) bool { return true })
	c := s.left[i]
	s.left = slices.Delete(s.left, i, i+1)
	s.chosen = append(s.chosen, c)
	s.count(&c, 1)
}

// improve moves one host to where fewer are, and says whether there was one to move. Each move makes the numbers on
// machines, or with the same on machines those in zones, more even, so there is an end of them.
func (s *spread) improve() bool {
	for i := range slices.Backward(s.chosen) { // whom was chosen last has the least reason to stay
		host := &s.chosen[i]
		s.count(host, -1)
		j := s.best(func(c *candidate) bool { return c.settledBeside(host) && s.crowd(c, host) < 0 })
		if j >= 0 {
			*host, s.left[j] = s.left[j], *host
		}
		s.count(host, 1)
		if j >= 0 {
			return true
		}
	}
	return false
}

// canHost says whether a pod has an address and is not about to lose it.
func canHost(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != ""
}

func isHost(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelDiscovery] == v1alpha1.DiscoveryHost
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
