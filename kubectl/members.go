// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/peercache/peercache/operator/plan"
)

// maxHosts bounds the nodes that are asked for the members where no pod has the label of a discovery host.
const maxHosts = 3

func (p *plugin) membersCommand() *cobra.Command {
	var out format
	command := &cobra.Command{
		Use:     "members [NAME]",
		GroupID: groupShow,
		Short:   "List the members as their discovery hosts see them",
		Example: "  kubectl peercache members kv -n inference",
		Args:    atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			return p.forClusters(command.Context(), names, &out, func(
				ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
			) (clusterReport, error) {
				answers := p.ask(ctx, a, cluster, discoveryHosts(pods))
				return makeMembers(identityOf(cluster), pods, answers, addresses(ctx, a, answers))
			})
		},
	}
	out.addTo(command)
	return command
}

// addresses returns the addresses of the members by name. A node tells addresses only to clients on its own machine, so
// the command runs inside a pod. Without the right to exec, addresses stay unknown.
func addresses(ctx context.Context, a *access, answers []answer) map[string]string {
	i := slices.IndexFunc(answers, func(got answer) bool { return got.err == nil })
	if i < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	result, err := a.pods.exec(ctx, answers[i].pod, plan.ContainerName, peercached(answers[i].pod, "status")...)
	var status fleet.NodeStatus
	if err != nil || json.Unmarshal([]byte(result.stdout), &status) != nil {
		return nil
	}
	known := map[string]string{}
	for _, m := range status.Members {
		known[m.ID] = m.Address
	}
	return known
}

// discoveryHosts returns the pods that know every member: the labelled ones, or else some ready pods.
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
	// Hosts are the discovery hosts that answered.
	Hosts []string `json:"hosts"`
	// Silent are the reasons why other hosts did not answer.
	Silent  []string `json:"silent"`
	Members []member `json:"members"`
}

type member struct {
	Name string `json:"name"`
	// State is joining, active or draining, or absent for a node that is no member. Where hosts differ, it holds all of
	// their states.
	State string `json:"state"`
	// Address is empty where it is not known.
	Address       string `json:"address"`
	CapacityBytes uint64 `json:"capacityBytes"`
	Reachable     bool   `json:"reachable"`
	// SeenBy is the number of hosts that list the member. BreakerOpenAt is the number of hosts that get no answers from
	// it.
	SeenBy        int `json:"seenBy"`
	BreakerOpenAt int `json:"breakerOpenAt"`
	// Health is the latest health that a host has received from the member, or null.
	Health *memberHealth `json:"health"`
	Note   string        `json:"note,omitempty"`
}

// memberHealth is fleet.Health in the JSON of the report.
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
	// RecentLookedUp and RecentDelivered are numbers of pages of about the last minute.
	RecentLookedUp  uint64 `json:"recentLookedUp"`
	RecentDelivered uint64 `json:"recentDelivered"`
}

// setHealth keeps the younger health.
func (m *member) setHealth(health *fleet.Health) {
	if health == nil || m.Health != nil && m.Health.AgeSeconds <= health.AgeSeconds {
		return
	}
	m.Health = &memberHealth{
		AgeSeconds: health.AgeSeconds, Group: health.Group, Rails: health.Rails, RailsUp: health.RailsUp, RailDown: health.RailDown, NUMA: health.NUMA,
		Engines: health.Engines, UsedBytes: health.PoolUsedBytes, RecentLookedUp: health.RecentLookedUp,
		RecentDelivered: health.RecentDelivered,
	}
}

const stateAbsent = "absent"

// makeMembers merges the answers of the hosts, and compares them with the pods.
func makeMembers(name identity, pods []*corev1.Pod, answers []answer, addresses map[string]string) (clusterReport, error) {
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
				row = &member{Name: m.ID, Address: addresses[m.ID], CapacityBytes: m.CapacityBytes, Reachable: true}
				byName[m.ID] = row
			}
			row.SeenBy++
			row.setHealth(m.Health)
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
		return nil, noAnswerError(name, pods, r.Silent)
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
			row.Note = "no pod of this cluster: on its way out, or a member outside of Kubernetes"
		}
	}
}

func noAnswerError(name identity, pods []*corev1.Pod, silent []string) error {
	if len(pods) == 0 {
		return fmt.Errorf("%s has no pods: see kubectl peercache status %s", name, name.arguments())
	}
	if len(silent) == 0 {
		return fmt.Errorf("no member of %s runs: see kubectl peercache doctor %s", name, name.arguments())
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
	_, _ = fmt.Fprintf(w, "%s: %s, %d active, reported by %s\n\n", r.identity, plural(len(r.Members), "member"),
		active, plural(len(r.Hosts), "discovery host"))
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

// healthCells are the cells of a row. A cell is empty where its value is unknown or does not apply.
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
	return fmt.Sprintf("gives no answers to %d of %s", m.BreakerOpenAt, plural(hosts, "host"))
}
