// SPDX-License-Identifier: Apache-2.0

// Package discovery chooses the pods that host discovery, and so are behind the cluster's headless Service. It is pure.
package discovery

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/slim"
)

const (
	// LostAfter is how long a host may be not ready before a ready pod takes its place. It is longer than a restart of
	// the container, which keeps the pod's address.
	LostAfter = 30 * time.Second
	// settleTime is how long a pod must have been ready to take the place of a healthy host for a better spread.
	// Otherwise a pod that comes and goes would move hosts each time. Half as long as the host suffices: while a
	// cluster comes up, its nodes look for hosts anyway, and each further move needs a pod that has been ready for
	// longer.
	settleTime = 2 * time.Minute
)

// candidate is a pod that can host discovery.
type candidate struct {
	pod           *corev1.Pod
	machine, zone string
	host          bool // has the discovery label
	lost          bool // a host that has not been ready for LostAfter
	ready         bool
	since         time.Duration // how long it has been ready, or not ready
	draining      bool          // its machine is drained, so the pod ends soon
}

// Choose decides which pods get the discovery label and which lose it. Healthy hosts stay. Free places go to ready pods, then
// to running ones; among these to the machine with the fewest hosts (a machine may run pods of several groups), then to the
// zone with the fewest, then to the oldest pod. A healthy host moves only if that evens out the spread, and only to a pod
// that has been ready for settleTime, because after each move all nodes resolve the Service again. Pods that cannot host lose
// the label. Pods on drained machines host only when there are no others.
//
// While a rolling update changes which nodes accept each other (LabelPeers), each side needs hosts of its own: a node becomes
// ready only after a host has answered, and hosts of the other side refuse it. Without that the update would stop at its
// first node.
func Choose(pods []corev1.Pod, machines []corev1.Node, replicas int, now time.Time) (add, remove []*corev1.Pod) {
	byPeers := map[string][]candidate{}
	for _, c := range candidates(pods, machines, now) {
		peers := c.pod.Labels[v1alpha1.LabelPeers]
		byPeers[peers] = append(byPeers[peers], c)
	}
	chosen := map[*corev1.Pod]bool{}
	for _, peers := range slices.Sorted(maps.Keys(byPeers)) {
		s := spread{left: byPeers[peers], machines: map[string]int{}, zones: map[string]int{}}
		for range min(replicas, len(s.left)) {
			s.placeNext()
		}
		for s.improve() {
		}
		for _, c := range s.chosen {
			chosen[c.pod] = true
			if !c.host {
				add = append(add, c.pod)
			}
		}
	}
	for i := range pods {
		if pod := &pods[i]; IsHost(pod) && !chosen[pod] && pod.DeletionTimestamp.IsZero() {
			remove = append(remove, pod)
		}
	}
	return add, remove
}

func candidates(pods []corev1.Pod, machines []corev1.Node, now time.Time) []candidate {
	labels := make(map[string]map[string]string, len(machines))
	for i := range machines {
		labels[machines[i].Name] = machines[i].Labels
	}
	var all []candidate
	for i := range pods {
		pod := &pods[i]
		if !CanHost(pod) {
			continue
		}
		machine := labels[pod.Spec.NodeName]
		c := candidate{pod: pod, machine: pod.Spec.NodeName, zone: machine[corev1.LabelTopologyZone], host: IsHost(pod),
			draining: machine[v1alpha1.LabelDrain] == v1alpha1.DrainNow}
		if ready := slim.Condition(pod, corev1.PodReady); ready != nil {
			c.since = now.Sub(ready.LastTransitionTime.Time)
			c.ready = ready.Status == corev1.ConditionTrue
			c.lost = c.host && !c.ready && c.since >= LostAfter
		}
		all = append(all, c)
	}
	return all
}

// mayReplace says whether a pod may take the place of a healthy host.
func (c *candidate) mayReplace(host *candidate) bool {
	return c.ready && !c.draining && (c.since > settleTime || host.ready && c.since >= host.since/2)
}

// rank orders candidates before their spread counts: healthy hosts, ready pods, lost hosts, other running pods; then
// the same order for pods on machines that are drained.
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

// spread counts the chosen hosts of each machine and of each zone.
type spread struct {
	chosen, left    []candidate
	machines, zones map[string]int
}

func (s *spread) count(c *candidate, by int) {
	s.machines[c.machine] += by
	s.zones[c.zone] += by
}

// compareLoad compares the number of hosts on the candidates' machines, then in their zones.
func (s *spread) compareLoad(a, b *candidate) int {
	return cmp.Or(cmp.Compare(s.machines[a.machine], s.machines[b.machine]), cmp.Compare(s.zones[a.zone], s.zones[b.zone]))
}

// best is the index of the best candidate among those that may be chosen; -1 when there is none.
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
		if cmp.Or(cmp.Compare(a.rank(), b.rank()), s.compareLoad(a, b), a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
			strings.Compare(a.pod.Name, b.pod.Name)) < 0 {
			best = i
		}
	}
	return best
}

func (s *spread) placeNext() {
	i := s.best(func(*candidate) bool { return true })
	c := s.left[i]
	s.left = slices.Delete(s.left, i, i+1)
	s.chosen = append(s.chosen, c)
	s.count(&c, 1)
}

// improve moves one host to a machine or zone with fewer hosts, and says whether it did. Each move evens out the
// numbers on machines, or with equal numbers there those in zones, so a loop of moves ends.
func (s *spread) improve() bool {
	for i := range slices.Backward(s.chosen) { // the last one chosen has the lowest rank
		host := &s.chosen[i]
		s.count(host, -1)
		j := s.best(func(c *candidate) bool { return c.mayReplace(host) && s.compareLoad(c, host) < 0 })
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

// CanHost says whether a pod has an address and will keep it.
func CanHost(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != ""
}

// IsHost says whether a pod has the label of discovery hosts.
func IsHost(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelDiscovery] == v1alpha1.DiscoveryHost
}
