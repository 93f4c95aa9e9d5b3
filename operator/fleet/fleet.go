// SPDX-License-Identifier: Apache-2.0

package fleet

// Fleet is what a discovery host has heard from all members: sums, and the first few that need attention. It is
// small at any number of members, so that one request tells of a thousand nodes.
type Fleet struct {
	// Warming says that the host has just started and may not have heard of every member.
	Warming bool       `json:"warming"`
	Members int        `json:"members"`
	Rails   RailSum    `json:"rails"`
	NUMA    Placement  `json:"numa"`
	Groups  []GroupSum `json:"groups"`
	Engines uint64     `json:"engines"`
	// RecentLookedUp are the pages that engines looked up in about the last minute, RecentDelivered those that they got
	// (docs/hit-ratio.md). A node of an earlier release tells neither.
	RecentLookedUp  uint64 `json:"recent_looked_up"`
	RecentDelivered uint64 `json:"recent_delivered"`
	// LatestLookedUp and LatestDelivered are the same of the last five seconds.
	LatestLookedUp  uint64  `json:"latest_looked_up"`
	LatestDelivered uint64  `json:"latest_delivered"`
	Pool            PoolSum `json:"pool"`
}

// RailSum counts the rails that members have opened.
type RailSum struct {
	Total               int         `json:"total"`
	Up                  int         `json:"up"`
	MembersWithSomeDown int         `json:"members_with_some_down"`
	FirstDown           []RailsDown `json:"first_down"`
}

// RailsDown is a member some of whose rails are not up; Rail is one of them.
type RailsDown struct {
	ID      string `json:"id"`
	Rails   int    `json:"rails"`
	RailsUp int    `json:"rails_up"`
	Rail    string `json:"rail"`
}

// Placement counts members by whether their threads and memory are on the NUMA node of their rails.
type Placement struct {
	Aligned        int         `json:"aligned"`
	Misplaced      int         `json:"misplaced"`
	NotApplicable  int         `json:"not_applicable"`
	Unknown        int         `json:"unknown"`
	FirstMisplaced []Misplaced `json:"first_misplaced"`
}

// Misplaced is a member that runs elsewhere; What is ThreadsElsewhere or MemoryElsewhere.
type Misplaced struct {
	ID   string `json:"id"`
	What string `json:"what"`
}

// What can be misplaced.
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

// PoolSum is the memory for pages on all members.
type PoolSum struct {
	UsedBytes     uint64 `json:"used_bytes"`
	CapacityBytes uint64 `json:"capacity_bytes"`
}

// Whole picks the answer of the host that has heard of the most members; nil when no host that has had the time to
// hear of everyone is among them.
func Whole(answers []NodeStatus) *Fleet {
	var best *Fleet
	for i := range answers {
		candidate := answers[i].Fleet
		if candidate != nil && !candidate.Warming && (best == nil || candidate.Members > best.Members) {
			best = candidate
		}
	}
	return best
}

// latestLeast is how many pages the last five seconds must have looked up for their ratio to mean anything: a few prompts that
// nobody had before are no fall.
const latestLeast = 512

// HitPercent is how many of a hundred pages that were looked up in the last minute were delivered, rounded; false when none
// was looked up.
func (f *Fleet) HitPercent() (int32, bool) {
	return percentOf(f.RecentDelivered, f.RecentLookedUp)
}

// LatestHitPercent is the same of the last five seconds; false when too few pages were looked up in them.
func (f *Fleet) LatestHitPercent() (int32, bool) {
	if f.LatestLookedUp < latestLeast {
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
