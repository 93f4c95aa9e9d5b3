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

// drainPoll is how often --wait looks.
const drainPoll = time.Second

// The last stage of either way; nothing is waited for any more.
const (
	stageLeft   = "has left the cluster"
	stageServes = "serves"
)

// await looks until every resident has left or is back, and tells each step of theirs.
func (p *plugin) await(ctx context.Context, a *access, found []resident, r *drainReport, timeout time.Duration) error {
	began := p.now()
	told := map[string]string{}
	for {
		pods, err := a.podsOn(ctx, r.Machine)
		if err != nil {
			return err
		}
		var pending []string
		for _, one := range found {
			stage := stageOfReturn(pods[one.owner])
			if r.leaves() {
				stage = p.stageOfLeaving(ctx, a, one, pods[one.owner])
			}
			who := identityOf(one.cluster).String() + " " + one.member
			if told[who] != stage {
				told[who] = stage
				_, _ = fmt.Fprintf(p.ErrOut, "%4ds  %s %s\n", int(p.now().Sub(began).Seconds()), who, stage)
			}
			if stage != stageLeft && stage != stageServes {
				pending = append(pending, who+" "+stage)
			}
		}
		if len(pending) == 0 {
			return nil
		}
		if p.now().Sub(began) >= timeout {
			return fmt.Errorf("%s is not done with %s after %s: %s: wait on with the same command, or see kubectl peercache status -A",
				r.Machine, r.Action, timeout, strings.Join(pending, "; "))
		}
		if err := p.sleep(ctx, drainPoll); err != nil {
			return fmt.Errorf("no longer waiting for %s: %w: the label stays as it is, and the same command waits on", r.Machine, err)
		}
	}
}

// stageOfLeaving: a member may outlive its pod, by its time to live, when it was killed before it had said goodbye.
func (p *plugin) stageOfLeaving(ctx context.Context, a *access, one resident, pod *corev1.Pod) string {
	switch {
	case pod != nil && pod.DeletionTimestamp == nil:
		return "still runs: the DaemonSet controller has not deleted pod " + pod.Name
	case pod != nil:
		return "hands over: pod " + pod.Name + " is being deleted"
	}
	pods, err := a.nodePods(ctx, one.cluster)
	if err != nil {
		return "has no pod any more, but who is a member cannot be asked: " + err.Error()
	}
	for _, host := range p.ask(ctx, a, one.cluster, discoveryHosts(pods)) {
		if host.err == nil && lists(host.status, one.member) {
			return "has no pod any more, but is still a member by the word of " + nodeName(host.pod)
		}
	}
	return stageLeft
}

func lists(status fleet.NodeStatus, id string) bool {
	for _, m := range status.Members {
		if m.ID == id {
			return true
		}
	}
	return false
}

func stageOfReturn(pod *corev1.Pod) string {
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
