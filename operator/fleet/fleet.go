// SPDX-License-Identifier: Apache-2.0

package fleet

// Fleet is what a discovery host has received from all members: sums, and the first few members that need attention. It stays
// small with any number of members, so that one request covers a thousand nodes.
type Fleet struct {
	// Warming is true where the host started recently, and may not have heard from every member.
	Warming bool       `json:"warming"`
	Members int        `json:"members"`
	Rails   RailSum    `json:"rails"`
	Disks   DiskSum    `json:"disks"`
	NUMA    Placement  `json:"numa"`
	Groups  []GroupSum `json:"groups"`
	Engines uint64     `json:"engines"`
	// RecentLookedUp is the number of pages that engines looked up in about the last minute, and RecentDelivered the number that
	// they got (docs/hit-ratio.md). Nodes of earlier releases send neither.
	RecentLookedUp  uint64 `json:"recent_looked_up"`
	RecentDelivered uint64 `json:"recent_delivered"`
	// LatestLookedUp and LatestDelivered are the numbers of the last five seconds.
	LatestLookedUp  uint64  `json:"latest_looked_up"`
	LatestDelivered uint64  `json:"latest_delivered"`
	Pool            PoolSum `json:"pool"`
	// Activity is what members did in about the last ten seconds. Nodes of earlier releases do not say.
	Activity *Activity `json:"activity"`
}

// RailSum counts the rails that members have opened.
type RailSum struct {
	Total               int         `json:"total"`
	Up                  int         `json:"up"`
	MembersWithSomeDown int         `json:"members_with_some_down"`
	FirstDown           []RailsDown `json:"first_down"`
}

// RailsDown is a member with rails that are not up. Rail is one of them.
type RailsDown struct {
	ID      string `json:"id"`
	Rails   int    `json:"rails"`
	RailsUp int    `json:"rails_up"`
	Rail    string `json:"rail"`
}

// DiskSum sums up the drives on which members keep pages. Nodes of earlier releases send none.
type DiskSum struct {
	Total int `json:"total"`
	On    int `json:"on"`
	// Recovering is the number of those that are on and still read which pages they have.
	Recovering         int        `json:"recovering"`
	MembersWithSomeOff int        `json:"members_with_some_off"`
	FirstOff           []DisksOff `json:"first_off"`
	// UsedBytes and CapacityBytes are those of the drives that are on.
	UsedBytes     uint64 `json:"used_bytes"`
	CapacityBytes uint64 `json:"capacity_bytes"`
	// BudgetBytesADay is what members with a write budget may write in 24 hours, and BudgetLeftBytes what is left of it.
	BudgetBytesADay uint64 `json:"budget_bytes_a_day"`
	BudgetLeftBytes uint64 `json:"budget_left_bytes"`
}

// DisksOff is a member with drives that are off. Disk is the path of one of them, as the member knows it.
type DisksOff struct {
	ID      string `json:"id"`
	Disks   int    `json:"disks"`
	DisksOn int    `json:"disks_on"`
	Disk    string `json:"disk"`
}

// Placement counts members by whether their threads and memory are on the NUMA node of their rails.
type Placement struct {
	Aligned        int         `json:"aligned"`
	Misplaced      int         `json:"misplaced"`
	NotApplicable  int         `json:"not_applicable"`
	Unknown        int         `json:"unknown"`
	FirstMisplaced []Misplaced `json:"first_misplaced"`
}

// Misplaced is a member on another NUMA node. What is ThreadsElsewhere or MemoryElsewhere.
type Misplaced struct {
	ID   string `json:"id"`
	What string `json:"what"`
}

// The values of Misplaced.What.
const (
	ThreadsElsewhere = "threads_elsewhere"
	MemoryElsewhere  = "memory_elsewhere"
)

// GroupSum counts the members and rails of one group.
type GroupSum struct {
	Name    string `json:"name"`
	Members int    `json:"members"`
	Rails   int    `json:"rails"`
	RailsUp int    `json:"rails_up"`
}

// PoolSum is the memory for pages of all members.
type PoolSum struct {
	UsedBytes     uint64 `json:"used_bytes"`
	CapacityBytes uint64 `json:"capacity_bytes"`
}

// MostComplete returns the answer of the host that knows the most members. It ignores hosts that are warming, and returns nil
// without another.
func MostComplete(answers []NodeStatus) *Fleet {
	if best := mostComplete(answers); best != nil {
		return best.Fleet
	}
	return nil
}

func mostComplete(answers []NodeStatus) (best *NodeStatus) {
	for i := range answers {
		candidate := answers[i].Fleet
		if candidate != nil && !candidate.Warming && (best == nil || candidate.Members > best.Fleet.Members) {
			best = &answers[i]
		}
	}
	return best
}

// EnginesAt is how many engines are attached to each member, by its name, as the host of MostComplete has heard.
func EnginesAt(answers []NodeStatus) map[string]uint64 {
	best := mostComplete(answers)
	if best == nil {
		return nil
	}
	engines := make(map[string]uint64, len(best.Members))
	for _, m := range best.Members {
		if m.Health != nil {
			engines[m.ID] = m.Health.Engines
		}
	}
	return engines
}

// Activity is what a node, or all members together, did lately.
type Activity struct {
	// Delivered counts pages by tier, as Lookups.Delivered does.
	Delivered map[string]uint64 `json:"delivered"`
	// EvictedPerSecond counts pages that left the pool for others, without replicas.
	EvictedPerSecond float64 `json:"evicted_per_second"`
}

const (
	// minReadPages is the least number of pages from other members that tells how they come. While links are made, the first
	// pages come over TCP.
	minReadPages = 512
	// maxSharePercent is how many of 100 of these may come over TCP where all members have rails. The dashboard says the same.
	maxSharePercent = 5
)

// OverTCP is true where more than a few pages from other members came over TCP. It returns false as the second value where too
// few came to tell.
func (a *Activity) OverTCP() (overTCP, known bool) {
	if a == nil {
		return false, false
	}
	tcp, all := a.Delivered["tcp"], a.Delivered["tcp"]+a.Delivered["rdma"]
	return 100*tcp > maxSharePercent*all, all >= minReadPages
}

// minLatestPages is the least number of lookups in five seconds for a meaningful ratio: a few new prompts are no fall of the
// ratio.
const minLatestPages = 512

// HitPercent is the percentage of pages looked up in the last minute that were delivered. It returns false where none was
// looked up.
func (f *Fleet) HitPercent() (int32, bool) {
	return percentOf(f.RecentDelivered, f.RecentLookedUp)
}

// LatestHitPercent is the percentage of the last five seconds. It returns false below minLatestPages lookups.
func (f *Fleet) LatestHitPercent() (int32, bool) {
	if f.LatestLookedUp < minLatestPages {
		return 0, false
	}
	return percentOf(f.LatestDelivered, f.LatestLookedUp)
}

func percentOf(delivered, lookedUp uint64) (int32, bool) {
	if lookedUp == 0 {
		return 0, false
	}
	return int32(float64(min(delivered, lookedUp))/float64(lookedUp)*100 + 0.5), true
}
