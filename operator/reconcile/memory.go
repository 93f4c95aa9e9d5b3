// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/status"
)

// memory is what the operator remembers of a cluster between passes, besides the status. One worker at a time handles a
// cluster, so it needs no lock.
type memory struct {
	uid      types.UID // of the cluster; another cluster may have its name later
	asked    time.Time // when the hosts were last asked
	answered time.Time // when they last answered, or were first asked
	fleet    *fleet.Fleet
	// engines is what fleet.EnginesAt said at the same time.
	engines map[string]uint64
	// status is remembered by package status.
	status     status.Memory
	lastStatus writtenStatus
	// changed is when a pass last changed something.
	changed time.Time
	// applied is remembered by package apply.
	applied apply.Memory
}

// writtenStatus is the last status that the operator wrote. The cache shows it only after a while; until then a pass
// would see the previous status and write the same again.
type writtenStatus struct {
	replaces []string // resource versions of the cluster that precede it
	version  string   // the resource version that it has
	status   v1alpha1.PeerCacheClusterStatus
}

// overlayStatus puts the last written status over a cluster from the cache that does not have it yet.
func (m *memory) overlayStatus(cluster *v1alpha1.PeerCacheCluster) {
	if !slices.Contains(m.lastStatus.replaces, cluster.ResourceVersion) {
		m.lastStatus = writtenStatus{}
		return
	}
	m.lastStatus.status.DeepCopyInto(&cluster.Status)
	cluster.ResourceVersion = m.lastStatus.version
}

func (m *memory) noteStatus(replaced string, cluster *v1alpha1.PeerCacheCluster) {
	m.lastStatus = writtenStatus{append(m.lastStatus.replaces, replaced), cluster.ResourceVersion, *cluster.Status.DeepCopy()}
}

// clusterMemories holds a memory for each cluster.
type clusterMemories struct {
	mu        sync.Mutex
	byCluster map[types.NamespacedName]*memory
}

func (m *clusterMemories) get(cluster *v1alpha1.PeerCacheCluster) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byCluster == nil {
		m.byCluster = map[types.NamespacedName]*memory{}
	}
	key := client.ObjectKeyFromObject(cluster)
	if m.byCluster[key] == nil || m.byCluster[key].uid != cluster.UID {
		m.byCluster[key] = &memory{uid: cluster.UID}
	}
	return m.byCluster[key]
}

func (m *clusterMemories) forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byCluster, cluster)
}
