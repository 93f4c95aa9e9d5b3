// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/peercache/peercache/operator/machine"
)

// chosen is a machine with the ports that are its rails.
type chosen struct {
	name  string
	rails []machine.Port
}

// compare returns an error where machines differ from most of them.
func compare(machines []chosen) error {
	usual := mostFrequent(machines)
	var lines []string
	for _, m := range machines {
		if differences := differ(m, usual); len(differences) > 0 {
			lines = append(lines, m.name+": "+strings.Join(differences, ", "))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("machines differ from %s, and a manifest has one list of rails:\n  %s\n"+
		"make them alike, leave ports out by --without, or write a manifest for each kind: name its machines, and its label in --selector",
		usual.name, strings.Join(lines, "\n  "))
}

// mostFrequent returns the first machine of the largest number of equal ones.
func mostFrequent(machines []chosen) chosen {
	best, most := machines[0], 0
	for _, m := range machines {
		same := 0
		for _, other := range machines {
			if len(differ(other, m)) == 0 {
				same++
			}
		}
		if same > most {
			best, most = m, same
		}
	}
	return best
}

// differ says what a machine has other than the usual one.
func differ(m, usual chosen) []string {
	var list []string
	for _, want := range usual.rails {
		i := slices.IndexFunc(m.rails, func(p machine.Port) bool { return p.Interface == want.Interface })
		if i < 0 {
			list = append(list, "it has no rail "+want.Interface)
			continue
		}
		got := m.rails[i]
		for _, field := range []struct{ what, got, want string }{
			{"on NUMA node", strconv.Itoa(got.NUMANode), strconv.Itoa(want.NUMANode)},
			{"of link layer", string(got.LinkLayer), string(want.LinkLayer)},
			{"of Gb/s", strconv.Itoa(got.Gbps), strconv.Itoa(want.Gbps)},
			{"with MTU", strconv.Itoa(got.MTU), strconv.Itoa(want.MTU)},
			{"in subnet", subnet(got).String(), subnet(want).String()},
		} {
			if field.got != field.want {
				list = append(list, fmt.Sprintf("%s is %s %s instead of %s", got.Interface, field.what, field.got, field.want))
			}
		}
	}
	for _, got := range m.rails {
		if !slices.ContainsFunc(usual.rails, func(p machine.Port) bool { return p.Interface == got.Interface }) {
			list = append(list, "it has a rail "+got.Interface+" besides")
		}
	}
	return list
}
