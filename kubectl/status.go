// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

func (p *plugin) statusCommand() *cobra.Command {
	var out format
	command := &cobra.Command{
		Use:     "status [NAME]",
		GroupID: groupShow,
		Short:   "Show whether the cache serves, what is wrong, and the next step",
		Example: "  kubectl peercache status kv -n inference",
		Args:    atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			a, err := p.connect()
			if err != nil {
				return err
			}
			clusters, err := p.clusters(command.Context(), a, names)
			if err != nil {
				return err
			}
			return out.print(p.Out, p.statusReport(command.Context(), a, clusters))
		},
	}
	out.addTo(command)
	return command
}

type statusReport struct {
	Clusters []clusterStatus `json:"clusters"`
}

type clusterStatus struct {
	identity
	// Available says that the cache serves, and Ready that nothing is missing.
	Available      bool   `json:"available"`
	Ready          bool   `json:"ready"`
	Mode           string `json:"mode"`
	Transport      string `json:"transport"`
	DesiredMembers int32  `json:"desiredMembers"`
	// DrainedMembers is the number of members that are not desired now, because their machines are drained.
	DrainedMembers int32  `json:"drainedMembers"`
	ReadyMembers   int32  `json:"readyMembers"`
	ActiveMembers  int32  `json:"activeMembers"`
	Capacity       string `json:"capacity"`
	// Disk is null where members keep pages in memory alone.
	Disk  *v1alpha1.DiskStatus `json:"disk"`
	Image string               `json:"image,omitempty"`
	// Engines and HitRatioPercent are what a discovery host says now. They are null when Unheard says why none was heard.
	Engines *uint64 `json:"engines"`
	// HitRatioPercent covers about the last minute. It is null when no engine read.
	HitRatioPercent *int32        `json:"hitRatioPercent"`
	Unheard         string        `json:"unheard,omitempty"`
	Groups          []groupStatus `json:"groups"`
	// NotFine are the conditions that are not as they should be, causes before effects.
	NotFine []condition `json:"notFine"`
	// Fine are the other conditions, as Type=Status.
	Fine []string `json:"fine"`
	// Next is what the user should do, the most urgent first.
	Next []string `json:"next"`
}

type groupStatus struct {
	Name    string `json:"name"`
	Desired int32  `json:"desired"`
	Drained int32  `json:"drained"`
	Ready   int32  `json:"ready"`
	Updated int32  `json:"updated"`
	// RailsDesired and RailsReady count the rails of all nodes of the group.
	RailsDesired int32 `json:"railsDesired"`
	RailsReady   int32 `json:"railsReady"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is the time of the last change of the status, and age the time since then.
	Since metav1.Time `json:"since"`
	age   string
}

// conditionOrder sorts causes before effects. Types that are not listed stand between InjectionReady and Progressing.
var conditionOrder = map[string]int{
	v1alpha1.ConditionConfigAccepted:   -5,
	v1alpha1.ConditionNetworksResolved: -4,
	v1alpha1.ConditionDevicesAvailable: -3,
	v1alpha1.ConditionDegraded:         -2,
	v1alpha1.ConditionInjectionReady:   -1,

	v1alpha1.ConditionPeersAuthenticated: 4, // the user has decided this, and it has no effect on the others
	v1alpha1.ConditionProgressing:        1,
	v1alpha1.ConditionReady:              2,
	v1alpha1.ConditionAvailable:          3,
}

// isFine is true for the good status of a condition, which is False for Degraded and Progressing.
func isFine(c metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.ConditionDegraded, v1alpha1.ConditionProgressing:
		return c.Status == metav1.ConditionFalse
	default:
		return c.Status == metav1.ConditionTrue
	}
}

// notFine returns the conditions that are not as they should be, causes before effects.
func notFine(conditions []metav1.Condition) []metav1.Condition {
	bad := slices.DeleteFunc(slices.Clone(conditions), isFine)
	slices.SortStableFunc(bad, func(a, b metav1.Condition) int {
		return cmp.Or(cmp.Compare(conditionOrder[a.Type], conditionOrder[b.Type]), cmp.Compare(a.Type, b.Type))
	})
	return bad
}

// statusReport is the status of clusters, with what their discovery hosts say now. Whoever may not ask these is told the rest.
func (p *plugin) statusReport(ctx context.Context, a *access, clusters []v1alpha1.PeerCacheCluster) statusReport {
	report := makeStatus(clusters, p.now())
	for i := range clusters {
		report.Clusters[i].hear(p.askHosts(ctx, a, &clusters[i]))
	}
	return report
}

// askHosts returns what the discovery hosts of a cluster have heard from all members.
func (p *plugin) askHosts(ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster) (*fleet.Fleet, error) {
	pods, err := a.nodePods(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var statuses []fleet.NodeStatus
	err = errors.New("no member runs")
	for _, got := range p.ask(ctx, a, cluster, discoveryHosts(pods)) {
		if err = got.err; err == nil {
			statuses = append(statuses, got.status)
		}
	}
	if heard := fleet.MostComplete(statuses); heard != nil {
		return heard, nil
	}
	return nil, cmp.Or(err, errors.New("no member hosts discovery yet"))
}

func (c *clusterStatus) hear(heard *fleet.Fleet, err error) {
	if err != nil {
		c.Unheard = err.Error()
		return
	}
	c.Engines = &heard.Engines
	if percent, known := heard.HitPercent(); known {
		c.HitRatioPercent = &percent
	}
}

func makeStatus(clusters []v1alpha1.PeerCacheCluster, now time.Time) statusReport {
	var r statusReport
	for i := range clusters {
		r.Clusters = append(r.Clusters, statusOf(&clusters[i], now))
	}
	return r
}

func statusOf(cluster *v1alpha1.PeerCacheCluster, now time.Time) clusterStatus {
	seen := cluster.Status
	s := clusterStatus{
		identity:       identityOf(cluster),
		Available:      meta.IsStatusConditionTrue(seen.Conditions, v1alpha1.ConditionAvailable),
		Ready:          meta.IsStatusConditionTrue(seen.Conditions, v1alpha1.ConditionReady),
		Mode:           string(cluster.Spec.Mode),
		Transport:      string(cluster.Spec.Transport),
		DesiredMembers: seen.DesiredMembers,
		DrainedMembers: seen.DrainedMembers,
		ReadyMembers:   seen.ReadyMembers,
		ActiveMembers:  seen.ActiveMembers,
		Capacity:       seen.Capacity.String(),
		Disk:           seen.Disk,
		Image:          seen.Image,

		Groups:  []groupStatus{},
		NotFine: []condition{},
		Fine:    []string{},
	}
	for _, group := range seen.Groups {
		s.Groups = append(s.Groups, groupStatus{
			group.Name, group.Desired, group.Drained, group.Ready, group.Updated, group.Rails.Desired, group.Rails.Ready,
		})
	}
	for _, c := range notFine(seen.Conditions) {
		s.NotFine = append(s.NotFine, condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime, age: duration.HumanDuration(now.Sub(c.LastTransitionTime.Time)),
		})
	}
	for _, c := range seen.Conditions {
		if isFine(c) {
			s.Fine = append(s.Fine, c.Type+"="+string(c.Status))
		}
	}
	slices.Sort(s.Fine)
	s.Next = nextSteps(cluster, notFine(seen.Conditions))
	return s
}

// nextSteps returns what the user should do, the most urgent first.
func nextSteps(cluster *v1alpha1.PeerCacheCluster, bad []metav1.Condition) []string {
	name := identityOf(cluster)
	if len(cluster.Status.Conditions) == 0 || cluster.Status.ObservedGeneration < cluster.Generation {
		return []string{"the operator has not processed the latest change: wait some seconds, then check that it runs: " +
			"kubectl get pods -A -l app.kubernetes.io/component=operator,app.kubernetes.io/name=peercache"}
	}
	if cluster.Spec.Mode == v1alpha1.ModePlan {
		return []string{"mode: Plan creates nothing: read status.plan (kubectl get pcc " + name.arguments() +
			" -o yaml), then write mode: Apply"}
	}
	var steps []string
	are := map[string]bool{}
	for _, c := range bad {
		are[c.Type] = true
	}
	if are[v1alpha1.ConditionConfigAccepted] {
		return []string{"correct the spec as in the message of ConfigAccepted: kubectl edit pcc " + name.arguments()}
	}
	if are[v1alpha1.ConditionNetworksResolved] || are[v1alpha1.ConditionDevicesAvailable] {
		steps = append(steps, "give the machines or networks what the messages name, or change the spec")
	}
	if are[v1alpha1.ConditionDegraded] {
		steps = append(steps, "examine the broken members: kubectl peercache doctor "+name.arguments())
	}
	if are[v1alpha1.ConditionInjectionReady] {
		steps = append(steps, "follow the message of InjectionReady, then recreate the SGLang pods that were started meanwhile")
	}
	if len(steps) == 0 && are[v1alpha1.ConditionProgressing] {
		steps = append(steps, "wait: kubectl wait --for=condition=Ready --timeout=10m pcc/"+name.arguments())
	}
	if len(steps) == 0 && len(bad) > 0 {
		steps = append(steps, "follow the messages; for more details: kubectl peercache doctor "+name.arguments())
	}
	if len(steps) == 0 {
		steps = append(steps, "nothing; for traffic: kubectl peercache top "+name.arguments())
	}
	return steps
}

func (r statusReport) text(w io.Writer) {
	for i, c := range r.Clusters {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		c.text(w)
	}
}

func (c clusterStatus) text(w io.Writer) {
	state := "NOT AVAILABLE"
	switch {
	case c.Available && c.Ready:
		state = "ready"
	case c.Available:
		state = "available, NOT READY"
	}
	drained := ""
	if c.DrainedMembers > 0 {
		drained = fmt.Sprintf(" (%d drained)", c.DrainedMembers)
	}
	_, _ = fmt.Fprintf(w, "%s: %s, %d of %s serve%s, %d active, %s for pages, transport %s\n", c.identity, state,
		c.ReadyMembers, plural(int(c.DesiredMembers), "member"), drained, c.ActiveMembers, c.Capacity, c.Transport)
	if c.Disk != nil {
		_, _ = fmt.Fprintf(w, "%s of %s on disk used, %s off", sizeOf(c.Disk.Used), sizeOf(c.Disk.Capacity), plural(int(c.Disk.Off), "drive"))
		if spent := c.Disk.WriteBudgetSpent; spent != nil {
			_, _ = fmt.Fprintf(w, ", %d %% of a day's writes spent", *spent)
		}
		_, _ = fmt.Fprintln(w)
	}
	_, _ = fmt.Fprintf(w, "%s\n\n", c.heard())
	if len(c.NotFine) > 0 {
		conditions := newTable("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
		for _, bad := range c.NotFine {
			conditions.add(bad.Type, bad.Status, bad.age, bad.Reason, bad.Message)
		}
		conditions.write(w)
		_, _ = fmt.Fprintln(w)
	}
	if len(c.Groups) > 0 {
		groups := newTable("GROUP", "DESIRED", "READY", "UPDATED", "DRAINED", "RAILS UP").numbers(1, 2, 3, 4, 5)
		for _, g := range c.Groups {
			groups.add(g.Name, strconv.Itoa(int(g.Desired)), strconv.Itoa(int(g.Ready)), strconv.Itoa(int(g.Updated)),
				strconv.Itoa(int(g.Drained)), g.railsUp())
		}
		groups.write(w)
		_, _ = fmt.Fprintln(w)
	}
	if len(c.Fine) > 0 {
		_, _ = fmt.Fprintln(w, "fine:", strings.Join(c.Fine, ", "))
	}
	for _, step := range c.Next {
		_, _ = fmt.Fprintln(w, "next:", step)
	}
}

// heard is the line about engines.
func (c clusterStatus) heard() string {
	if c.Engines == nil {
		return "engines and hits: unknown, " + c.Unheard
	}
	hits := "no reads"
	if c.HitRatioPercent != nil {
		hits = fmt.Sprintf("%d%% hits", *c.HitRatioPercent)
	}
	return fmt.Sprintf("%s attached, %s", plural(int(min(*c.Engines, 1<<30)), "engine"), hits)
}

// railsUp is empty where pages travel by TCP.
func (g groupStatus) railsUp() string {
	if g.RailsDesired == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", g.RailsReady, g.RailsDesired)
}
