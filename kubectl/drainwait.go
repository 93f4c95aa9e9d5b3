// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/fleet"
)

// drainPoll is the interval at which --wait looks at the members.
const drainPoll = time.Second

// The last stages of drain and undrain.
const (
	stageLeft   = "has left the cluster"
	stageServes = "serves"
)

// waitForMembers waits until every member has left or is back, and prints each of their steps.
func (p *plugin) waitForMembers(ctx context.Context, a *access, members []localMember, r *drainReport, timeout time.Duration) error {
	began := p.now()
	printed := map[string]string{}
	for {
		pods, err := a.podsOn(ctx, r.Machine)
		if err != nil {
			return err
		}
		var pending []string
		for _, m := range members {
			stage := returnStage(pods[m.owner])
			if r.leaves() {
				stage = p.leavingStage(ctx, a, m, pods[m.owner])
			}
			name := identityOf(m.cluster).String() + " " + m.member
			if printed[name] != stage {
				printed[name] = stage
				_, _ = fmt.Fprintf(p.ErrOut, "%4ds  %s %s\n", int(p.now().Sub(began).Seconds()), name, stage)
			}
			if stage != stageLeft && stage != stageServes {
				pending = append(pending, name+" "+stage)
			}
		}
		if len(pending) == 0 {
			return nil
		}
		if p.now().Sub(began) >= timeout {
			return fmt.Errorf("%s: %s is not complete after %s: %s: repeat the command to wait on, or see kubectl peercache status -A",
				r.Machine, r.Action, timeout, strings.Join(pending, "; "))
		}
		if err := p.sleep(ctx, drainPoll); err != nil {
			return fmt.Errorf("waiting for %s was interrupted: %w: the label stays as it is; repeat the command to wait on", r.Machine, err)
		}
	}
}

// leavingStage describes how far a member has left. A node that was killed stays a member until its time to live is
// over.
func (p *plugin) leavingStage(ctx context.Context, a *access, m localMember, pod *corev1.Pod) string {
	switch {
	case pod != nil && pod.DeletionTimestamp == nil:
		return "still runs: the DaemonSet controller has not deleted pod " + pod.Name
	case pod != nil:
		return "hands over: pod " + pod.Name + " is being deleted"
	}
	pods, err := a.nodePods(ctx, m.cluster)
	if err != nil {
		return "has no pod, but the members cannot be read: " + err.Error()
	}
	for _, host := range p.ask(ctx, a, m.cluster, discoveryHosts(pods)) {
		if host.err == nil && hasMember(host.status, m.member) {
			return "has no pod, but " + nodeName(host.pod) + " still lists it as a member"
		}
	}
	return stageLeft
}

func hasMember(status fleet.NodeStatus, id string) bool {
	for _, m := range status.Members {
		if m.ID == id {
			return true
		}
	}
	return false
}

func returnStage(pod *corev1.Pod) string {
	switch {
	case pod == nil:
		return "has no pod yet"
	case pod.DeletionTimestamp != nil:
		return "is still leaving"
	case podReady(pod):
		return stageServes
	}
	if why := notRunning(pod); why != "" {
		return "has pod " + pod.Name + ", which " + why
	}
	return "joins"
}
