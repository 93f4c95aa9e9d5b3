// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/inplace"
)

// rest says how far the nodes have come, by their DaemonSets as they are after this pass has written them. A group that
// was deleted does not count: its nodes go together with what removes their files.
func (p *pass) rest() apply.Rest {
	rest := apply.AtRest
	for _, daemonSet := range p.DaemonSets {
		status := daemonSet.Status
		switch {
		case status.ObservedGeneration < daemonSet.Generation || inplace.UnderWay(daemonSet, p.podsOf(daemonSet)):
			return apply.BeingReplaced
		case status.NumberReady < status.DesiredNumberScheduled:
			rest = apply.Starting
		}
	}
	return rest
}
