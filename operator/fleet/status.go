// SPDX-License-Identifier: Apache-2.0

package fleet

// NodeStatus is the part of a node's /v1/status that the operator reads. Fields that a newer node adds are
// ignored.
type NodeStatus struct {
	Node    Node     `json:"node"`
	Members []Member `json:"members"`
}

// Node is the answering node itself.
type Node struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Group   string `json:"group"`
	State   string `json:"state"`
}

// Member is another node, or the node itself, as the answering node sees it.
type Member struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// StateActive is the state of a member that serves pages.
const StateActive = "active"

// ActiveMembers counts the members that at least one of the answers sees as active. Views differ for a
// moment while nodes come and go; one node that sees a member is proof enough that it is there.
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
