// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"slices"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/machine"
)

// Memory is the pool of each member, in the huge pages that every machine has reserved for it.
type Memory struct {
	Pool      string
	HugePages v1alpha1.HugePages
}

// defaultPool is the pool where no huge pages are reserved.
const defaultPool = "64Gi"

// memoryOf takes all huge pages of the NUMA nodes of the rails, of the machine that has the fewest.
func memoryOf(machines []machine.Machine, rails []Rail) Memory {
	count := func(pages func(machine.NUMANode) int) int {
		var each []int
		for _, m := range machines {
			each = append(each, ofMember(m, rails, pages))
		}
		return slices.Min(each)
	}
	if n := count(func(n machine.NUMANode) int { return n.HugePages1Gi }); n > 0 {
		return Memory{fmt.Sprintf("%dGi", n), v1alpha1.HugePages1Gi}
	}
	if n := count(func(n machine.NUMANode) int { return n.HugePages2Mi }); n >= 512 {
		return Memory{fmt.Sprintf("%dGi", n/512), v1alpha1.HugePages2Mi}
	}
	return Memory{defaultPool, v1alpha1.HugePagesNone}
}

// ofMember counts the pages that each member of the machine can have: those of the NUMA node with rails that has the fewest,
// or of all NUMA nodes.
func ofMember(m machine.Machine, rails []Rail, pages func(machine.NUMANode) int) int {
	sum := 0
	var each []int
	for _, node := range m.NUMA {
		sum += pages(node)
		if slices.ContainsFunc(rails, func(r Rail) bool { return r.NUMANode == node.ID }) {
			each = append(each, pages(node))
		}
	}
	switch {
	case rails[0].NUMANode < 0:
		return sum
	case len(each) == 0:
		return 0
	default:
		return slices.Min(each)
	}
}
