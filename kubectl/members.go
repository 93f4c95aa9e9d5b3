// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

// maxHosts bounds who is asked for the members where no pod is labelled as discovery host.
const maxHosts = 3

func (p *plugin) membersCommand() *cobra.Command {
	var out format
	command := &cobra.Command{
		Use:   "members [NAME]",
		Short: "The members of the cluster as its discovery hosts see them",
		Args:  atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			return p.forClusters(command.Context(), names, &out, func(
				ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
			) (clusterReport, error) {
				return makeMembers(identityOf(cluster), pods, p.ask(ctx, a, cluster, discoveryHosts(pods)))
			})
		},
	}
	out.addTo(command)
	return command
}

// discoveryHosts are the pods that know every member: those with the label, or else some that run.
func discoveryHosts(pods []*corev1.Pod) []*corev1.Pod {
	var hosts, others []*corev1.Pod
	for _, pod := range pods {
		switch {
		case pod.Labels[v1alpha1.LabelDiscovery] == v1alpha1.DiscoveryHost && notRunning(pod) == "":
			hosts = append(hosts, pod)
		case podReady(pod):
			others = append(others, pod)
		}
	}
	if len(hosts) == 0 {
		return others[:min(len(others), maxHosts)]
	}
	return hosts
}

type membersReport struct {
	identity
	// Hosts are those that answered.
	Hosts []string `json:"hosts"`
	// Silent says why others did not.
	Silent  []string `json:"silent"`
	Members []member `json:"members"`
}

type member struct {
	Name string `json:"name"`
	// State is joining, active or draining, or absent for a node that is no member. Where hosts differ, all of
	// their words are here.
	State         string `json:"state"`
	Address       string `json:"address"`
	CapacityBytes uint64 `json:"capacityBytes"`
	Reachable     bool   `json:"reachable"`
	// SeenBy is how many hosts list the member, BreakerOpenAt how many of them get no answers from it.
	SeenBy        int `json:"seenBy"`
	BreakerOpenAt int `json:"breakerOpenAt"`
	// Health is what it said of itself; the latest that a host has heard, or null.
	Health *memberHealth `json:"health"`
	Note   string        `json:"note,omitempty"`
}

// memberHealth is fleet.Health for scripts.
type memberHealth struct {
	AgeSeconds float64 `json:"ageSeconds"`
	Group      string  `json:"group"`
	Rails      int     `json:"rails"`
	RailsUp    int     `json:"railsUp"`
	RailDown   string  `json:"railDown,omitempty"`
	// NUMA is aligned, not_applicable, unknown, threads_elsewhere or memory_elsewhere.
	NUMA      string `json:"numa"`
	Engines   uint64 `json:"engines"`
	UsedBytes uint64 `json:"usedBytes"`
	// RecentLookedUp and RecentDelivered count pages of about the last minute.
	RecentLookedUp  uint64 `json:"recentLookedUp"`
	RecentDelivered uint64 `json:"recentDelivered"`
}

// hear keeps the latest word of the member.
func (m *member) hear(said *fleet.Health) {
	if said == nil || m.Health != nil && m.Health.AgeSeconds <= said.AgeSeconds {
		return
	}
	m.Health = &memberHealth{
		AgeSeconds: said.AgeSeconds, Group: said.Group, Rails: said.Rails, RailsUp: said.RailsUp, RailDown: said.RailDown, NUMA: said.NUMA,
		Engines: said.Engines, UsedBytes: said.PoolUsedBytes, RecentLookedUp: said.RecentLookedUp,
		RecentDelivered: said.RecentDelivered,
	}
}

const stateAbsent = "absent"

// makeMembers joins what the hosts say, and compares it with the pods there are.
func makeMembers(name identity, pods []*corev1.Pod, answers []answer) (clusterReport, error) {
	r := &membersReport{identity: name, Hosts: []string{}, Silent: []string{}, Members: []member{}}
	byName := map[string]*member{}
	states := map[string][]string{}
	for _, got := range answers {
		if got.err != nil {
			r.Silent = append(r.Silent, got.err.Error())
			continue
		}
		r.Hosts = append(r.Hosts, nodeName(got.pod))
		for _, m := range got.status.Members {
			row, known := byName[m.ID]
			if !known {
				row = &member{Name: m.ID, Address: m.Address, CapacityBytes: m.CapacityBytes, Reachable: true}
				byName[m.ID] = row
			}
			row.SeenBy++
			row.hear(m.Health)
			row.Reachable = row.Reachable && m.Reachable
			if m.Breaker == fleet.BreakerOpen {
				row.BreakerOpenAt++
			}
			if !slices.Contains(states[m.ID], m.State) {
				states[m.ID] = append(states[m.ID], m.State)
			}
		}
	}
	if len(r.Hosts) == 0 {
		return nil, noHostAnswers(name, pods, r.Silent)
	}
	for id, row := range byName {
		slices.Sort(states[id])
		row.State = strings.Join(states[id], "/")
	}
	addPods(byName, pods)
	for _, id := range slices.Sorted(maps.Keys(byName)) {
		r.Members = append(r.Members, *byName[id])
	}
	return r, nil
}

func addPods(byName map[string]*member, pods []*corev1.Pod) {
	has := map[string]bool{}
	for _, pod := range pods {
		id := nodeName(pod)
		has[id] = true
		row, known := byName[id]
		if !known {
			row = &member{Name: id, State: stateAbsent}
			byName[id] = row
		}
		switch why := notRunning(pod); {
		case why != "":
			row.Note = "pod " + pod.Name + " " + why
		case !known:
			row.Note = "pod " + pod.Name + " runs but has not joined: see kubectl peercache doctor"
		}
	}
	for id, row := range byName {
		if !has[id] {
			row.Note = "no pod of this cluster: on its way out, or a node outside of Kubernetes"
		}
	}
}

func noHostAnswers(name identity, pods []*corev1.Pod, silent []string) error {
	if len(pods) == 0 {
		return fmt.Errorf("%s has no pods: see kubectl peercache status %s", name, name.arguments())
	}
	if len(silent) == 0 {
		return fmt.Errorf("no node of %s runs: see kubectl peercache doctor %s", name, name.arguments())
	}
	return fmt.Errorf("no discovery host of %s answers (%s): see kubectl peercache doctor %s",
		name, strings.Join(silent, "; "), name.arguments())
}

func (r *membersReport) text(w io.Writer) {
	active := 0
	for _, m := range r.Members {
		if m.State == fleet.StateActive {
			active++
		}
	}
	_, _ = fmt.Fprintf(w, "%s: %s, %d active, by the word of %s\n\n", r.identity, several(len(r.Members), "member"),
		active, several(len(r.Hosts), "discovery host"))
	t := newTable("MEMBER", "STATE", "REACHABLE", "SEEN BY", "USED", "CAPACITY", "HITS", "ENGINES", "RAILS UP", "NUMA", "ADDRESS", "NOTE").
		numbers(3, 4, 5, 6, 7, 8)
	for _, m := range r.Members {
		seen := fmt.Sprintf("%d/%d", m.SeenBy, len(r.Hosts))
		if m.State == stateAbsent {
			t.add(m.Name, m.State, "", seen, "", "", "", "", "", "", "", m.Note)
			continue
		}
		h := m.Health.cells()
		t.add(m.Name, m.State, yesNo(m.Reachable), seen, h.used, size(m.CapacityBytes), h.hits, h.engines, h.rails, h.numa, m.Address,
			cmp.Or(m.Note, m.breakers(len(r.Hosts)), h.note))
	}
	t.write(w)
	for _, silent := range r.Silent {
		_, _ = fmt.Fprintln(w, "no answer:", silent)
	}
}

// healthCells are those of a row; empty where nothing is known, or nothing applies.
type healthCells struct{ used, hits, engines, rails, numa, note string }

func (h *memberHealth) cells() healthCells {
	if h == nil {
		return healthCells{}
	}
	c := healthCells{used: size(h.UsedBytes), engines: strconv.FormatUint(h.Engines, 10)}
	if h.RecentLookedUp > 0 {
		c.hits = percent(float64(min(h.RecentDelivered, h.RecentLookedUp)), float64(h.RecentLookedUp))
	}
	if h.Rails > 0 {
		c.rails = fmt.Sprintf("%d/%d", h.RailsUp, h.Rails)
	}
	if h.RailDown != "" {
		c.note = h.RailDown + " is down: see kubectl peercache rails"
	}
	if h.NUMA != "not_applicable" {
		c.numa = strings.ReplaceAll(h.NUMA, "_", " ")
	}
	return c
}

func (m member) breakers(hosts int) string {
	if m.BreakerOpenAt == 0 {
		return ""
	}
	return fmt.Sprintf("gives no answers to %d of %s", m.BreakerOpenAt, several(hosts, "host"))
}
