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

// doctorWithin bounds `peercached doctor` on one node, which takes a few seconds where peers are silent.
const doctorWithin = 30 * time.Second

// Grades, as `peercached doctor` has them.
const (
	gradeFault   = "fault"
	gradeWarning = "warning"
)

func (p *plugin) doctorCommand() *cobra.Command {
	var out format
	failOn := gradeFault
	command := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "What is wrong and what to do: conditions, pods, and peercached doctor on every node",
		Long: "Looks at the cluster's conditions and pods, runs `peercached doctor` in every node's pod, and prints one table\n" +
			"with a remedy for each fault. The exit status is 1 when something is wrong.",
		Args: atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			if failOn != gradeFault && failOn != gradeWarning {
				return fmt.Errorf("--fail-on is %q: write fault or warning", failOn)
			}
			wrong := false
			err := p.forClusters(command.Context(), names, &out, func(
				ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
			) (clusterReport, error) {
				r := makeDoctor(cluster, p.ask(ctx, a, cluster, pods), examine(ctx, a, pods))
				wrong = wrong || r.Faults > 0 || failOn == gradeWarning && r.Warnings > 0
				return r, nil
			})
			if err == nil && wrong {
				return errWrong
			}
			return err
		},
	}
	out.addTo(command)
	command.Flags().StringVar(&failOn, "fail-on", failOn, "what makes the exit status 1: fault, or warning for both")
	return command
}

// finding is one of `peercached doctor --json`.
type finding struct {
	Grade   string `json:"grade"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// examination is what the doctor says on one node.
type examination struct {
	pod      *corev1.Pod
	findings []finding
	err      error
}

// examine runs the doctor on every pod that runs.
func examine(ctx context.Context, a *access, pods []*corev1.Pod) []examination {
	return eachPod(pods, func(pod *corev1.Pod) examination {
		if notRunning(pod) != "" {
			return examination{pod: pod}
		}
		ctx, cancel := context.WithTimeout(ctx, doctorWithin)
		defer cancel()
		result, err := a.pods.exec(ctx, pod, plan.ContainerName, doctorOf(pod)...)
		if err != nil {
			return examination{pod: pod, err: err}
		}
		findings, err := parseDoctor(result)
		return examination{pod: pod, findings: findings, err: err}
	})
}

// doctorOf is the command with the options of the node itself. Those of its environment are there by themselves.
func doctorOf(pod *corev1.Pod) []string {
	command := []string{"peercached", "doctor", "--json"}
	for _, container := range pod.Spec.Containers {
		if container.Name == plan.ContainerName {
			command = append(command, container.Args...)
		}
	}
	return command
}

// parseDoctor reads the findings, which are there whatever the exit status, unless the options were refused.
func parseDoctor(result execResult) ([]finding, error) {
	var said struct {
		Findings []finding `json:"findings"`
	}
	if err := json.Unmarshal([]byte(result.stdout), &said); err != nil {
		lines := strings.Split(strings.TrimSpace(result.stderr), "\n")
		return nil, fmt.Errorf("peercached doctor ended with status %d: %s", result.status,
			cmp.Or(lines[len(lines)-1], err.Error()))
	}
	return said.Findings, nil
}

type doctorReport struct {
	identity
	Nodes    int `json:"nodes"`
	Faults   int `json:"faults"`
	Warnings int `json:"warnings"`
	// Troubles are all of them, faults first.
	Troubles []trouble `json:"troubles"`
}

// trouble is one thing that is wrong, in one place or several.
type trouble struct {
	Grade   string   `json:"grade"`
	Where   []string `json:"where"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
}

// whole is where a trouble is that concerns the cluster and no node of it.
const whole = "cluster"

func makeDoctor(cluster *v1alpha1.PeerCacheCluster, answers []answer, examined []examination) *doctorReport {
	r := &doctorReport{identity: identityOf(cluster), Nodes: len(answers), Troubles: []trouble{}}
	r.lookAtConditions(cluster)
	for _, got := range answers {
		r.lookAtPod(got)
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
	slices.SortStableFunc(r.Troubles, func(a, b trouble) int { return cmp.Compare(a.Grade, b.Grade) }) // fault, warning
	for _, t := range r.Troubles {
		if t.Grade == gradeFault {
			r.Faults++
		} else {
			r.Warnings++
		}
	}
	return r
}

func (r *doctorReport) lookAtConditions(cluster *v1alpha1.PeerCacheCluster) {
	conditions := cluster.Status.Conditions
	if len(conditions) == 0 || cluster.Status.ObservedGeneration < cluster.Generation {
		r.add(gradeFault, whole, "operator", nextSteps(cluster, nil)[0])
	}
	// While nodes are being started or replaced, not being ready is a phase.
	underWay := meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionProgressing)
	for _, c := range notFine(conditions) {
		grade := gradeFault
		switch {
		case c.Type == v1alpha1.ConditionProgressing:
			grade = gradeWarning
		case c.Type == v1alpha1.ConditionReady && underWay, c.Status == "Unknown":
			grade = gradeWarning
		}
		r.add(grade, whole, c.Type, c.Reason+": "+c.Message)
	}
}

func (r *doctorReport) lookAtPod(got answer) {
	where := nodeName(got.pod)
	switch why := notRunning(got.pod); {
	case why != "":
		r.add(gradeFault, where, "pod", fmt.Sprintf("it %s: kubectl describe pod -n %s %s", why, got.pod.Namespace, got.pod.Name))
	case got.err != nil:
		r.add(gradeFault, where, "status", got.err.Error())
	case !got.status.Node.Ready:
		r.add(gradeFault, where, "ready", cmp.Or(got.status.Node.Reason, "it is not ready and does not say why"))
	}
}

// add joins what is wrong in the same way in several places.
func (r *doctorReport) add(grade, where, subject, text string) {
	for i := range r.Troubles {
		if t := &r.Troubles[i]; t.Grade == grade && t.Subject == subject && t.Text == text {
			if !slices.Contains(t.Where, where) {
				t.Where = append(t.Where, where)
			}
			return
		}
	}
	r.Troubles = append(r.Troubles, trouble{grade, []string{where}, subject, text})
}

func (r *doctorReport) text(w io.Writer) {
	if len(r.Troubles) == 0 {
		_, _ = fmt.Fprintf(w, "%s: nothing is wrong: conditions and %s were looked at\n", r.identity, several(r.Nodes, "node"))
		return
	}
	_, _ = fmt.Fprintf(w, "%s: %s, %s; conditions and %s were looked at\n\n", r.identity, several(r.Faults, "fault"),
		several(r.Warnings, "warning"), several(r.Nodes, "node"))
	t := newTable("GRADE", "WHERE", "SUBJECT", "WHAT IT IS, AND WHAT TO DO")
	for _, found := range r.Troubles {
		grade := found.Grade
		if grade == gradeFault {
			grade = strings.ToUpper(grade) // stands out without colour
		}
		where := found.Where[0]
		if more := len(found.Where) - 1; more > 0 {
			where += fmt.Sprintf(" +%d", more)
		}
		t.add(grade, where, found.Subject, found.Text)
	}
	t.write(w)
}
