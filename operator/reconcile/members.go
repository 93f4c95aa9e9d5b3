// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/tracing"
)

const (
	// askEvery bounds how often the nodes of a cluster are asked: pod events come in bursts, and a node that
	// does not answer holds a pass up for a second.
	askEvery = 5 * time.Second
	// askGatedEvery is the same while a falling hit ratio is to pause an update within ten seconds. Passes are up to five
	// seconds apart, and one that an event makes must not put off the next look at the nodes.
	askGatedEvery = time.Second
	// believedFor is how long an answer is gone by when no later one comes. It is longer than it takes to move
	// discovery from hosts that are lost, so that this alone makes no condition flap.
	believedFor = time.Minute
)

// hearsay is what the discovery hosts say of all members.
type hearsay struct {
	fleet *fleet.Fleet
	// hold says that there is no answer yet, but one may come: what the status says stands.
	hold bool
}

// askFleet asks the discovery hosts, each of which knows how every member is. It is information only: a failure
// keeps what was known, and neither Ready nor any action depends on it, but for the pause of an update.
func (r *Reconciler) askFleet(ctx context.Context, p *pass) {
	if len(p.facts.pods) == 0 {
		p.members = 0
		return
	}
	var addresses []string
	for i := range p.facts.pods {
		if pod := &p.facts.pods[i]; isHost(pod) && canHost(pod) {
			addresses = append(addresses,
				net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(p.cluster.Spec.Monitoring.Port))))
		}
	}
	memory, now := r.memories.of(p.cluster), r.Now()
	pause := askEvery
	if gated(p.cluster) {
		pause = askGatedEvery
	}
	if len(addresses) > 0 && now.Sub(memory.asked) >= pause {
		memory.asked = now
		answers, err := r.Fleet.Ask(ctx, addresses)
		if err != nil {
			log.FromContext(ctx).V(1).Info("some nodes did not tell their members", "error", err.Error())
			_ = tracing.Note(trace.SpanFromContext(ctx), err)
		}
		if len(answers) > 0 {
			p.members = fleet.ActiveMembers(answers)
		}
		memory.hear(fleet.Whole(answers), now)
	}
	p.heard = memory.recall(now)
}

// memory is what the operator remembers of a cluster between passes, besides what is written in its status. Each
// cluster is looked at by one worker at a time.
type memory struct {
	uid   types.UID // of the cluster: another one may have its name later
	asked time.Time // the hosts, last
	heard time.Time // their last answer, or when one was first awaited
	fleet *fleet.Fleet
	// numbers is when those that change all the time were last written.
	numbers time.Time
	// refused is when a pod that a kubelet does not take was last seen.
	refused time.Time
	// swept says that no admission policy of a former cluster of its name is left.
	swept bool
	wrote written
	// changed is when a pass last changed something.
	changed time.Time
	// objects are those that were written.
	objects records
}

// written is the status that was written last. The cache learns of it only after a while, in which the status would look
// as if it had to be written again.
type written struct {
	over    []string // resource versions of the cluster that it is later than
	version string   // its own
	status  v1alpha1.PeerCacheClusterStatus
}

// remind gives a cluster from the cache the status that was written over it.
func (m *memory) remind(cluster *v1alpha1.PeerCacheCluster) {
	if !slices.Contains(m.wrote.over, cluster.ResourceVersion) {
		m.wrote = written{}
		return
	}
	m.wrote.status.DeepCopyInto(&cluster.Status)
	cluster.ResourceVersion = m.wrote.version
}

func (m *memory) note(over string, cluster *v1alpha1.PeerCacheCluster) {
	m.wrote = written{append(m.wrote.over, over), cluster.ResourceVersion, *cluster.Status.DeepCopy()}
}

func (m *memory) hear(answer *fleet.Fleet, now time.Time) {
	if answer != nil {
		m.fleet, m.heard = answer, now
	}
}

func (m *memory) recall(now time.Time) hearsay {
	if m.heard.IsZero() {
		m.heard = now
	}
	if now.Sub(m.heard) >= believedFor {
		return hearsay{}
	}
	return hearsay{fleet: m.fleet, hold: m.fleet == nil}
}

// memories holds one for each cluster.
type memories struct {
	mu sync.Mutex
	by map[types.NamespacedName]*memory
}

func (m *memories) of(cluster *v1alpha1.PeerCacheCluster) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[types.NamespacedName]*memory{}
	}
	key := client.ObjectKeyFromObject(cluster)
	if m.by[key] == nil || m.by[key].uid != cluster.UID {
		m.by[key] = &memory{uid: cluster.UID, objects: records{}}
	}
	return m.by[key]
}

func (m *memories) forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, cluster)
}
