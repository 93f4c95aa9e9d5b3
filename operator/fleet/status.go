// SPDX-License-Identifier: Apache-2.0

package fleet

// NodeStatus is the part of a node's /v1/status that the operator and the kubectl plug-in read. Additional fields of a newer
// node are ignored, and fields that an older node lacks are zero.
type NodeStatus struct {
	Node      Node      `json:"node"`
	Members   []Member  `json:"members"`
	Transport Transport `json:"transport"`
	Pool      Pool      `json:"pool"`
	Engines   []Engine  `json:"engines"`
	Lookups   Lookups   `json:"lookups"`
	Counters  Counters  `json:"counters"`
	// Activity is nil for the first seconds.
	Activity *Activity `json:"activity"`
	// Slow are the places that engines of the node get nothing of, as computing is faster.
	Slow []SlowPlace `json:"slower_than_computing"`
	// Disk is nil where the node keeps pages in memory alone.
	Disk *Disk `json:"disk"`
	// Fleet is nil where the node hosts no discovery.
	Fleet *Fleet `json:"fleet"`
}

// Node is the answering node itself.
type Node struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Group   string `json:"group"`
	State   string `json:"state"`
	// Incarnation changes with each start of the node, which resets all counters.
	Incarnation uint64 `json:"incarnation"`
	Ready       bool   `json:"ready"`
	// Reason is why the node is not ready.
	Reason string `json:"reason"`
}

// Member is another node, or the node itself, as the answering node sees it.
type Member struct {
	ID            string `json:"id"`
	State         string `json:"state"`
	Address       string `json:"address"`
	CapacityBytes uint64 `json:"capacity_bytes"`
	// Breaker is BreakerOpen while the answering node gets no answers from the member.
	Breaker string `json:"breaker"`
	// Reachable is false when most members get no answers from this one. It then is in no ring.
	Reachable bool `json:"reachable"`
	// Health is the last health that the answering node received from the member, if it hosts discovery.
	Health *Health `json:"health"`
}

// SlowPlace is the memory or the drives of a member.
type SlowPlace struct {
	Member string `json:"member"`
	// Tier is memory or disk.
	Tier           string `json:"tier"`
	BytesPerSecond uint64 `json:"bytes_per_second"`
}

// Health is what a member sends to the discovery hosts with its heartbeats.
type Health struct {
	// AgeSeconds is the age of the values.
	AgeSeconds float64 `json:"age_seconds"`
	Group      string  `json:"group"`
	Rails      int     `json:"rails"`
	RailsUp    int     `json:"rails_up"`
	// RailDown is one of the rails that are not up.
	RailDown string `json:"rail_down"`
	// NUMA is aligned, not_applicable, unknown, ThreadsElsewhere or MemoryElsewhere.
	NUMA    string `json:"numa"`
	Engines uint64 `json:"engines"`
	// RecentLookedUp is the number of pages that its engines looked up in about the last minute, and RecentDelivered the number
	// that they got.
	RecentLookedUp  uint64 `json:"recent_looked_up"`
	RecentDelivered uint64 `json:"recent_delivered"`
	PoolUsedBytes   uint64 `json:"pool_used_bytes"`
}

// Transport is how the node sends and receives pages.
type Transport struct {
	Kind string `json:"kind"`
	// Reason is why the node uses that kind.
	Reason string `json:"reason"`
	Rails  []Rail `json:"rails"`
}

// Rail is an RDMA port that the node has opened.
type Rail struct {
	Name string `json:"name"`
	Up   bool   `json:"up"`
	// Why is what a rail that is not up waits for, and the remedy.
	Why string `json:"why"`
	// NUMANode is negative where it is not known.
	NUMANode          int    `json:"numa_node"`
	ReadBytes         uint64 `json:"read_bytes"`
	QueuePairFailures uint64 `json:"queue_pair_failures"`
}

// Pool is the node's memory for pages.
type Pool struct {
	CapacityBytes uint64 `json:"capacity_bytes"`
	UsedBytes     uint64 `json:"used_bytes"`
	Pages         uint64 `json:"pages"`
}

// Disk is the node's drives for pages.
type Disk struct {
	Pages         uint64 `json:"pages"`
	CapacityBytes uint64 `json:"capacity_bytes"`
	UsedBytes     uint64 `json:"used_bytes"`
	// BudgetLeftBytes is what may be written now, below 0 where more was under way; nil without a bound.
	BudgetLeftBytes *float64     `json:"budget_left_bytes"`
	Devices         []DiskDevice `json:"devices"`
}

// DiskDevice is one drive.
type DiskDevice struct {
	// Path is where the node finds it.
	Path string `json:"path"`
	// IO is how the node reads and writes it, and why not otherwise.
	IO string `json:"io"`
	On bool   `json:"on"`
	// Why is why the drive is off, or why its file began empty.
	Why       string `json:"why"`
	Bytes     uint64 `json:"bytes"`
	Recovered bool   `json:"recovered"`
}

// Engine is an SGLang process that is attached to the node.
type Engine struct {
	Name string `json:"name"`
}

// Lookups counts the pages that engines looked up and got since the start of the node: docs/hit-ratio.md.
type Lookups struct {
	LookedUpPages  uint64 `json:"looked_up_pages"`
	DeliveredPages uint64 `json:"delivered_pages"`
	// Delivered has one entry per tier: local, replica, shared, tcp, rdma.
	Delivered map[string]PageCount `json:"delivered"`
}

// PageCount counts pages, and the tokens of pages whose engine gives their number.
type PageCount struct {
	Pages  uint64 `json:"pages"`
	Tokens uint64 `json:"tokens"`
}

// DeliveredTokens is the number of tokens of all tiers.
func (l Lookups) DeliveredTokens() uint64 {
	var sum uint64
	for _, tier := range l.Delivered {
		sum += tier.Tokens
	}
	return sum
}

// Counters counts pages, or bytes where the name says so, since the start of the node.
type Counters struct {
	ReadRequests    uint64 `json:"read_requests"`
	ReadLocalHits   uint64 `json:"read_local_hits"`
	ReadRemoteHits  uint64 `json:"read_remote_hits"`
	ReadSharedHits  uint64 `json:"read_shared_hits"`
	ReadReplicaHits uint64 `json:"read_replica_hits"`
	WriteStored     uint64 `json:"write_stored"`
	BytesRead       uint64 `json:"bytes_read"`
	BytesWritten    uint64 `json:"bytes_written"`
	ServedPages     uint64 `json:"served_pages"`
	ServedBytes     uint64 `json:"served_bytes"`
}

// Hits is the number of pages that were found in any tier.
func (c Counters) Hits() uint64 {
	return c.ReadLocalHits + c.ReadRemoteHits + c.ReadSharedHits + c.ReadReplicaHits
}

const (
	// StateActive is the state of a member that serves pages.
	StateActive = "active"
	// BreakerOpen is the breaker of a member that does not answer.
	BreakerOpen = "open"
)

// ActiveMembers counts the members that at least one answer lists as active. Views differ briefly while nodes come and go; one
// node that sees a member is enough.
func ActiveMembers(answers []NodeStatus) int32 {
	active := map[string]struct{}{}
	for _, answer := range answers {
		for _, member := range answer.Members {
			if member.State == StateActive {
				active[member.ID] = struct{}{}
			}
		}
	}
	return int32(len(active)) //nolint:gosec // bounded by maxBody
}
