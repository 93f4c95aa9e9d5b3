// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// doctorTimeout bounds `peercached doctor` on one node, which takes a few seconds where peers do not answer.
const doctorTimeout = 30 * time.Second

// The grades of `peercached doctor` that the report takes over.
const (
	gradeFault   = "fault"
	gradeWarning = "warning"
)

func (p *plugin) doctorCommand() *cobra.Command {
	var out format
	failOn := gradeFault
	command := &cobra.Command{
		Use:     "doctor [NAME]",
		GroupID: groupFind,
		Short:   "Find faults in conditions, pods and members, each with its fix",
		Example: "  kubectl peercache doctor kv -n inference",
		Long: "Check the cluster's conditions, pods and SGLang pods, run `peercached doctor` in every member's pod, and print one\n" +
			"table with a remedy for each fault. The exit status is 1 when something is wrong.",
		Args: atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			if failOn != gradeFault && failOn != gradeWarning {
				return fmt.Errorf("--fail-on is %q: write fault or warning", failOn)
			}
			wrong := false
			err := p.forClusters(command.Context(), names, &out, func(
				ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
			) (clusterReport, error) {
				engines, err := a.enginePods(ctx, cluster)
				if err != nil {
					return nil, err
				}
				r := makeDoctor(cluster, p.ask(ctx, a, cluster, pods), runDoctors(ctx, a, pods), engines)
				wrong = wrong || r.Faults > 0 || failOn == gradeWarning && r.Warnings > 0
				return r, nil
			})
			if err == nil && wrong {
				return errUnhealthy
			}
			return err
		},
	}
	out.addTo(command)
	command.Flags().StringVar(&failOn, "fail-on", failOn, "what makes the exit status 1: fault, or warning for both")
	return command
}

// finding is one finding of `peercached doctor --json`.
type finding struct {
	Grade   string `json:"grade"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// doctorResult is the output of the doctor on one node.
type doctorResult struct {
	pod      *corev1.Pod
	findings []finding
	err      error
}

// runDoctors runs the doctor on every pod that runs.
func runDoctors(ctx context.Context, a *access, pods []*corev1.Pod) []doctorResult {
	return eachPod(pods, func(pod *corev1.Pod) doctorResult {
		if notRunning(pod) != "" {
			return doctorResult{pod: pod}
		}
		ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
		defer cancel()
		result, err := a.pods.exec(ctx, pod, plan.ContainerName, peercached(pod, "doctor", "--json")...)
		if err != nil {
			return doctorResult{pod: pod, err: err}
		}
		findings, err := parseDoctor(result)
		return doctorResult{pod: pod, findings: findings, err: err}
	})
}

// peercached returns a command line of the node's program with the node's own options. The options in its environment
// apply by themselves.
func peercached(pod *corev1.Pod, arguments ...string) []string {
	command := append([]string{"peercached"}, arguments...)
	for _, container := range pod.Spec.Containers {
		if container.Name == plan.ContainerName {
			command = append(command, container.Args...)
		}
	}
	return command
}

// parseDoctor reads the findings. The doctor prints them with every exit status, unless it refuses its options.
func parseDoctor(result execResult) ([]finding, error) {
	var output struct {
		Findings []finding `json:"findings"`
	}
	if err := json.Unmarshal([]byte(result.stdout), &output); err != nil {
		lines := strings.Split(strings.TrimSpace(result.stderr), "\n")
		return nil, fmt.Errorf("peercached doctor ended with status %d: %s", result.status,
			cmp.Or(lines[len(lines)-1], err.Error()))
	}
	return output.Findings, nil
}

type doctorReport struct {
	identity
	Nodes    int `json:"members"`
	Faults   int `json:"faults"`
	Warnings int `json:"warnings"`
	// Problems are all faults and warnings, faults first.
	Problems []problem `json:"troubles"`
}

// problem is one fault or warning, in one place or several.
type problem struct {
	Grade   string   `json:"grade"`
	Where   []string `json:"where"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
}

// wholeCluster is the place of a problem that concerns the cluster and no single node.
const wholeCluster = "cluster"

func makeDoctor(cluster *v1alpha1.PeerCacheCluster, answers []answer, examined []doctorResult, engines []corev1.Pod) *doctorReport {
	r := &doctorReport{identity: identityOf(cluster), Nodes: len(answers), Problems: []problem{}}
	r.addConditions(cluster)
	for _, got := range answers {
		r.addPod(got, plan.OnlyRDMA(cluster.Spec))
		r.addSlow(got)
	}
	for _, e := range examined {
		if e.err != nil {
			r.add(gradeFault, nodeName(e.pod), "doctor", e.err.Error())
		}
		for _, f := range e.findings {
			if f.Grade == gradeFault || f.Grade == gradeWarning {
				r.add(f.Grade, nodeName(e.pod), f.Subject, f.Text)
			}
		}
	}
	r.addEngines(engines)
	slices.SortStableFunc(r.Problems, func(a, b problem) int { return cmp.Compare(a.Grade, b.Grade) }) // "fault" sorts before "warning"
	for _, t := range r.Problems {
		if t.Grade == gradeFault {
			r.Faults++
		} else {
			r.Warnings++
		}
	}
	return r
}

func (r *doctorReport) addConditions(cluster *v1alpha1.PeerCacheCluster) {
	conditions := cluster.Status.Conditions
	if len(conditions) == 0 || cluster.Status.ObservedGeneration < cluster.Generation {
		r.add(gradeFault, wholeCluster, "operator", nextSteps(cluster, nil)[0])
	}
	// While nodes start or are replaced, a cluster that is not ready is no fault.
	progressing := meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionProgressing)
	for _, c := range notFine(conditions) {
		grade := gradeFault
		switch {
		case c.Type == v1alpha1.ConditionProgressing, c.Type == v1alpha1.ConditionPeersAuthenticated:
			grade = gradeWarning
		case (c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionAvailable) && progressing, c.Status == "Unknown":
			grade = gradeWarning
		}
		r.add(grade, wholeCluster, c.Type, c.Reason+": "+c.Message)
	}
}

// addPod reports a pod that does not serve, or that reads over TCP where all members have rails.
func (r *doctorReport) addPod(got answer, onlyRDMA bool) {
	where := nodeName(got.pod)
	switch why := notRunning(got.pod); {
	case why != "":
		r.add(gradeFault, where, "pod", fmt.Sprintf("it %s: kubectl describe pod -n %s %s", why, got.pod.Namespace, got.pod.Name))
	case got.err != nil:
		r.add(gradeFault, where, "status", got.err.Error())
	case !got.status.Node.Ready:
		r.add(gradeFault, where, "ready", cmp.Or(got.status.Node.Reason, "it is not ready and gives no reason"))
	case onlyRDMA:
		if overTCP, known := got.status.Activity.OverTCP(); overTCP && known {
			r.add(gradeFault, where, "transport", "pages of other members come over TCP, though all members have rails: see which pairs "+
				"are slow (kubectl peercache bench); groups whose rails are in other subnets need routes in provision.networks[].ipam, "+
				"or layout: PerNode")
		}
	}
}

// addSlow reports what engines of a member compute although it is cached, as they are faster.
func (r *doctorReport) addSlow(got answer) {
	if got.err != nil {
		return
	}
	where := nodeName(got.pod)
	for _, place := range got.status.Slow {
		remedy := "measure the links: kubectl peercache bench"
		if place.Tier == "disk" {
			remedy = "see the drives: kubectl peercache disks"
		}
		r.add(gradeWarning, where, "slow", fmt.Sprintf("engines compute pages that %s has (%s), as reading them there is slower, at %sB/s: %s",
			place.Member, place.Tier, size(place.BytesPerSecond), remedy))
	}
}

// add joins equal problems of several places.
func (r *doctorReport) add(grade, where, subject, text string) {
	for i := range r.Problems {
		if t := &r.Problems[i]; t.Grade == grade && t.Subject == subject && t.Text == text {
			if !slices.Contains(t.Where, where) {
				t.Where = append(t.Where, where)
			}
			return
		}
	}
	r.Problems = append(r.Problems, problem{grade, []string{where}, subject, text})
}

func (r *doctorReport) text(w io.Writer) {
	if len(r.Problems) == 0 {
		_, _ = fmt.Fprintf(w, "%s: nothing is wrong: checked the conditions and %s\n", r.identity, plural(r.Nodes, "member"))
		return
	}
	_, _ = fmt.Fprintf(w, "%s: %s, %s; checked the conditions and %s\n\n", r.identity, plural(r.Faults, "fault"),
		plural(r.Warnings, "warning"), plural(r.Nodes, "member"))
	t := newTable("GRADE", "WHERE", "SUBJECT", "WHAT IT IS, AND WHAT TO DO")
	for _, found := range r.Problems {
		grade := found.Grade
		if grade == gradeFault {
			grade = strings.ToUpper(grade) // capitals stand out without colour
		}
		where := found.Where[0]
		if more := len(found.Where) - 1; more > 0 {
			where += fmt.Sprintf(" +%d", more)
		}
		t.add(grade, where, found.Subject, found.Text)
	}
	t.write(w)
}
