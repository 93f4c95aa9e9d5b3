// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Problem is a spec that the API server accepts but that cannot be put into effect.
type Problem struct {
	// Reason is one word in CamelCase, for a condition.
	Reason string
	// Message names the field and the fix.
	Message string
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

// check finds what the API server cannot: what this release cannot do, and rules that need the groups, which
// follow from several fields.
func check(spec v1alpha1.PeerCacheClusterSpec, groups []Group, facts Facts) *Problem {
	if !slices.Contains(facts.Transports, spec.Transport) {
		return &Problem{
			Reason: "TransportUnavailable",
			Message: fmt.Sprintf("the data plane of this release cannot use transport: %s: write transport: %s",
				spec.Transport, v1alpha1.TransportTCP),
		}
	}
	return checkHostNetwork(groups)
}

func checkHostNetwork(groups []Group) *Problem {
	var onHost *Group
	for i := range groups {
		group := &groups[i]
		host := group.railsWith(v1alpha1.AttachmentHostNetwork)
		if len(host) == 0 {
			continue
		}
		if len(host) < len(group.Rails) {
			return &Problem{
				Reason: "MixedAttachments",
				Message: fmt.Sprintf("rails of group %q are partly attached by HostNetwork, which gives the pod no "+
					"network of its own: give rail %q another rails[].group, or attach all rails of the group alike",
					group.Name, host[0].Name),
			}
		}
		if onHost != nil {
			return &Problem{
				Reason: "HostPortConflict",
				Message: fmt.Sprintf("groups %q and %q are both attached by HostNetwork, so their nodes would need "+
					"the same ports of the machine: put these rails into one rails[].group, or use another attachment",
					onHost.Name, group.Name),
			}
		}
		onHost = group
	}
	return nil
}
