// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
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
)

func (p *plugin) statusCommand() *cobra.Command {
	var out format
	command := &cobra.Command{
		Use:   "status [NAME]",
		Short: "What is not fine, groups, capacity, and what to do next",
		Args:  atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			a, err := p.connect()
			if err != nil {
				return err
			}
			clusters, err := p.clusters(command.Context(), a, names)
			if err != nil {
				return err
			}
			return out.print(p.Out, makeStatus(clusters, p.now()))
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
	Ready        bool   `json:"ready"`
	Mode         string `json:"mode"`
	Transport    string `json:"transport"`
	DesiredNodes int32  `json:"desiredNodes"`
	// DrainedNodes are not among the desired ones, because their machines are drained.
	DrainedNodes int32  `json:"drainedNodes"`
	ReadyNodes   int32  `json:"readyNodes"`
	Members      int32  `json:"members"`
	Capacity     string `json:"capacity"`
	Image        string `json:"image,omitempty"`
	Engines      int32  `json:"engines"`
	// HitRatioPercent is of about the last minute; null when nobody read.
	HitRatioPercent *int32        `json:"hitRatioPercent"`
	Groups          []groupStatus `json:"groups"`
	// NotFine are the conditions that are not as they should be, causes first.
	NotFine []condition `json:"notFine"`
	// Fine are the others, as Type=Status.
	Fine []string `json:"fine"`
	// Next is what to do, the most urgent first.
	Next []string `json:"next"`
}

type groupStatus struct {
	Name    string `json:"name"`
	Desired int32  `json:"desired"`
	Drained int32  `json:"drained"`
	Ready   int32  `json:"ready"`
	Updated int32  `json:"updated"`
	// Rails of all the group's nodes.
	RailsDesired int32 `json:"railsDesired"`
	RailsReady   int32 `json:"railsReady"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when the status became what it is, and age how long ago that was.
	Since metav1.Time `json:"since"`
	age   string
}

// causes come before what follows from them. Types that are not listed stand between Degraded and Progressing.
var causes = map[string]int{
	v1alpha1.ConditionConfigAccepted:   -5,
	v1alpha1.ConditionNetworksResolved: -4,
	v1alpha1.ConditionDevicesAvailable: -3,
	v1alpha1.ConditionDegraded:         -2,
	v1alpha1.ConditionInjectionReady:   -1,
	v1alpha1.ConditionProgressing:      1,
	v1alpha1.ConditionReady:            2,
}

// isFine knows the two conditions that are fine while they are False.
func isFine(c metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.ConditionDegraded, v1alpha1.ConditionProgressing:
		return c.Status == metav1.ConditionFalse
	default:
		return c.Status == metav1.ConditionTrue
	}
}

// notFine are the conditions that are not as they should be, causes first.
func notFine(conditions []metav1.Condition) []metav1.Condition {
	bad := slices.DeleteFunc(slices.Clone(conditions), isFine)
	slices.SortStableFunc(bad, func(a, b metav1.Condition) int {
		return cmp.Or(cmp.Compare(causes[a.Type], causes[b.Type]), cmp.Compare(a.Type, b.Type))
	})
	return bad
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
		identity:     identityOf(cluster),
		Ready:        meta.IsStatusConditionTrue(seen.Conditions, v1alpha1.ConditionReady),
		Mode:         string(cluster.Spec.Mode),
		Transport:    string(cluster.Spec.Transport),
		DesiredNodes: seen.DesiredNodes,
		DrainedNodes: seen.DrainedNodes,
		ReadyNodes:   seen.ReadyNodes,
		Members:      seen.Members,
		Capacity:     seen.Capacity.String(),
		Image:        seen.Image,
		Engines:      seen.Engines,

		HitRatioPercent: seen.HitRatioPercent,
		Groups:          []groupStatus{},
		NotFine:         []condition{},
		Fine:            []string{},
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

// nextSteps is what to do now, the most urgent first.
func nextSteps(cluster *v1alpha1.PeerCacheCluster, bad []metav1.Condition) []string {
	name := identityOf(cluster)
	if len(cluster.Status.Conditions) == 0 || cluster.Status.ObservedGeneration < cluster.Generation {
		return []string{"the operator has not seen the latest change: wait some seconds, then look whether it runs: " +
			"kubectl get pods -A -l app.kubernetes.io/component=operator,app.kubernetes.io/name=peercache"}
	}
	if cluster.Spec.Mode == v1alpha1.ModePlan {
		return []string{"nothing is made in mode: Plan: read status.plan (kubectl get pcc " + name.arguments() +
			" -o yaml), then write mode: Apply"}
	}
	var steps []string
	are := map[string]bool{}
	for _, c := range bad {
		are[c.Type] = true
	}
	if are[v1alpha1.ConditionConfigAccepted] {
		return []string{"correct the spec as the message of ConfigAccepted says: kubectl edit pcc " + name.arguments()}
	}
	if are[v1alpha1.ConditionNetworksResolved] || are[v1alpha1.ConditionDevicesAvailable] {
		steps = append(steps, "give the machines or networks what the messages name, or change the spec")
	}
	if are[v1alpha1.ConditionDegraded] {
		steps = append(steps, "look at the broken nodes: kubectl peercache doctor "+name.arguments())
	}
	if are[v1alpha1.ConditionInjectionReady] {
		steps = append(steps, "do what InjectionReady says, then create the SGLang pods anew that were started meanwhile")
	}
	if len(steps) == 0 && are[v1alpha1.ConditionProgressing] {
		steps = append(steps, "wait: kubectl wait --for=condition=Ready --timeout=10m pcc/"+name.arguments())
	}
	if len(steps) == 0 && len(bad) > 0 {
		steps = append(steps, "do what the messages say; kubectl peercache doctor "+name.arguments()+" looks closer")
	}
	if len(steps) == 0 {
		steps = append(steps, "nothing; what moves: kubectl peercache top "+name.arguments())
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
	state := "NOT READY"
	if c.Ready {
		state = "ready"
	}
	hits := "nobody reads"
	if c.HitRatioPercent != nil {
		hits = fmt.Sprintf("%d%% hits", *c.HitRatioPercent)
	}
	drained := ""
	if c.DrainedNodes > 0 {
		drained = fmt.Sprintf(" (%d drained)", c.DrainedNodes)
	}
	_, _ = fmt.Fprintf(w, "%s: %s, %d of %s serve%s, %s, %s for pages, transport %s\n", c.identity, state,
		c.ReadyNodes, several(int(c.DesiredNodes), "node"), drained, several(int(c.Members), "member"), c.Capacity, c.Transport)
	_, _ = fmt.Fprintf(w, "%s attached, %s\n\n", several(int(c.Engines), "engine"), hits)
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

// railsUp is empty where pages travel by TCP.
func (g groupStatus) railsUp() string {
	if g.RailsDesired == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", g.RailsReady, g.RailsDesired)
}
