// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/operator/fleet"
)

// askEvery bounds how often the nodes of a cluster are asked: pod events come in bursts, and a node that
// does not answer holds a pass up for a second.
const askEvery = 5 * time.Second

// countMembers asks the discovery hosts, each of which knows every member. It is information only: a failure
// keeps the last count and no condition depends on it, so a slow answer never makes a cluster flap.
func (r *Reconciler) countMembers(ctx context.Context, p *pass) {
	var addresses []string
	for i := range p.facts.pods {
		if pod := &p.facts.pods[i]; isHost(pod) && canHost(pod) {
			addresses = append(addresses,
				net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(p.cluster.Spec.Monitoring.Port))))
		}
	}
	if len(p.facts.pods) == 0 {
		p.members = 0
		return
	}
	if len(addresses) == 0 || !r.asked.due(client.ObjectKeyFromObject(p.cluster), r.Now()) {
		return
	}
	answers, err := r.Fleet.Ask(ctx, addresses)
	if err != nil {
		log.FromContext(ctx).V(1).Info("some nodes did not tell their members", "error", err.Error())
	}
	if len(answers) > 0 {
		p.members = fleet.ActiveMembers(answers)
	}
}

// askedAt remembers when each cluster's nodes were last asked.
type askedAt struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

func (a *askedAt) due(cluster types.NamespacedName, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, known := a.last[cluster]; known && now.Sub(last) < askEvery {
		return false
	}
	if a.last == nil {
		a.last = map[types.NamespacedName]time.Time{}
	}
	a.last[cluster] = now
	return true
}

func (a *askedAt) forget(cluster types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, cluster)
}
