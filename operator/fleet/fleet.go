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
	// RecentReads are the pages that engines asked for in about the last minute, RecentHits those that were found.
	RecentReads uint64  `json:"recent_reads"`
	RecentHits  uint64  `json:"recent_hits"`
	Pool        PoolSum `json:"pool"`
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

// HitPercent is how many of a hundred recent reads were hits, rounded; false when there were no reads.
func (f *Fleet) HitPercent() (int32, bool) {
	if f.RecentReads == 0 {
		return 0, false
	}
	hits := min(f.RecentHits, f.RecentReads)
	return int32(float64(hits)/float64(f.RecentReads)*100 + 0.5), true
}
