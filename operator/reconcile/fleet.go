// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/operator/discovery"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/slim"
	"github.com/peercache/peercache/operator/status"
	"github.com/peercache/peercache/operator/tracing"
)

const (
	// askInterval bounds how often the hosts of a cluster are asked: pod events come in bursts, and a host that does
	// not answer delays a pass by a second.
	askInterval = 5 * time.Second
	// gatedAskInterval is the same while a falling hit ratio may pause an update, which must happen within ten seconds.
	// Passes are up to five seconds apart, and a pass that an event triggers must not put off the next question.
	gatedAskInterval = time.Second
	// fleetTTL is how long an answer is used when no later one comes. It is longer than discovery takes to move away
	// from hosts that are lost, so that such a move changes no condition.
	fleetTTL = time.Minute
	// maxAsked bounds the hosts that are asked. spec.discovery.replicas is at most as large.
	maxAsked = 7
)

// askFleet asks the discovery hosts; each host knows the health of every member. A failure keeps the last answer.
// Neither Ready nor any action depends on it, except the pause of an update.
func (r *Reconciler) askFleet(ctx context.Context, p *pass) {
	if len(p.Pods) == 0 {
		p.ActiveMembers = 0
		return
	}
	var addresses []string
	for _, pod := range hostsToAsk(p.Pods) {
		addresses = append(addresses, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(p.Cluster.Spec.Monitoring.Port))))
	}
	memory, now := r.memories.get(p.Cluster), r.Now()
	pause := askInterval
	// An update that begins is held to the ratio of now, and the last answer may be half a minute old.
	begins := p.changed && p.Cluster.Spec.Update.MaxHitRatioDrop != nil
	if status.Gated(p.Cluster) || begins {
		pause = gatedAskInterval
	}
	if len(addresses) > 0 && now.Sub(memory.asked) >= pause {
		memory.asked = now
		answers, err := r.Fleet.Ask(ctx, addresses)
		if err != nil {
			log.FromContext(ctx).V(1).Info("some nodes did not report their members", "error", err.Error())
			_ = tracing.RecordError(trace.SpanFromContext(ctx), err)
		}
		if len(answers) > 0 {
			p.ActiveMembers = fleet.ActiveMembers(answers)
		}
		memory.noteFleet(fleet.MostComplete(answers), fleet.EnginesAt(answers), now)
	}
	p.Fleet = memory.fleetView(now)
}

// hostsToAsk are some discovery hosts, ready ones first. Where the operator may not patch pods, all members are hosts.
func hostsToAsk(pods []corev1.Pod) []*corev1.Pod {
	var ready, others []*corev1.Pod
	for i := range pods {
		switch pod := &pods[i]; {
		case !discovery.IsHost(pod) || !discovery.CanHost(pod):
		case slim.Ready(pod):
			ready = append(ready, pod)
		default:
			others = append(others, pod)
		}
	}
	hosts := slices.Concat(ready, others)
	return hosts[:min(len(hosts), maxAsked)]
}

func (m *memory) noteFleet(answer *fleet.Fleet, engines map[string]uint64, now time.Time) {
	if answer != nil {
		m.fleet, m.engines, m.answered = answer, engines, now
	}
}

func (m *memory) fleetView(now time.Time) status.FleetView {
	if m.answered.IsZero() {
		m.answered = now
	}
	if now.Sub(m.answered) >= fleetTTL {
		return status.FleetView{}
	}
	return status.FleetView{Fleet: m.fleet, Engines: m.engines, Hold: m.fleet == nil}
}
