// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"io"
	"strconv"

	"github.com/peercache/peercache/api/v1alpha1"
)

// stateUnknown is that of a node that does not answer.
const stateUnknown = "unknown"

// The actions.
const (
	actionDrain   = "drain"
	actionUndrain = "undrain"
)

// drainReport is what drain and undrain say.
type drainReport struct {
	Machine string `json:"machine"`
	// Action is drain or undrain.
	Action string `json:"action"`
	// Already says that there was nothing to change, DryRun that nothing was to be changed.
	Already bool `json:"already"`
	DryRun  bool `json:"dryRun,omitempty"`
	// Cordoned says of a machine to be drained that no pods are scheduled there.
	Cordoned bool `json:"cordoned"`
	// Complete says that --wait has seen all members gone, or back.
	Complete bool `json:"complete"`
	// Members are those that belong on the machine, as they were before.
	Members []drainMember `json:"members"`
}

func (r *drainReport) leaves() bool { return r.Action == actionDrain }

// drainMember is a node that leaves its cluster, or comes back.
type drainMember struct {
	Cluster identity `json:"cluster"`
	Member  string   `json:"member"`
	Pod     string   `json:"pod,omitempty"`
	// State is joining, active or draining; absent where no pod runs, and unknown where it does not answer.
	State         string `json:"state"`
	UsedBytes     uint64 `json:"usedBytes"`
	CapacityBytes uint64 `json:"capacityBytes"`
	// Engines are attached to it: SGLang ranks of this machine.
	Engines int `json:"engines"`
	// OtherNodes is how many nodes of the cluster serve on other machines.
	OtherNodes int32  `json:"otherNodes"`
	Note       string `json:"note,omitempty"`
}

// text is not used: a person is told before and after.
func (r *drainReport) text(w io.Writer) {
	r.before(w)
	r.after(w)
}

// before says what will happen.
func (r *drainReport) before(w io.Writer) {
	switch {
	case r.Already && r.leaves():
		_, _ = fmt.Fprintf(w, "%s is drained already\n", r.Machine)
		return
	case r.Already:
		_, _ = fmt.Fprintf(w, "%s is not drained\n", r.Machine)
		return
	case !r.leaves():
		_, _ = fmt.Fprintf(w, "%s: %s\n", r.Machine, r.movers("comes back, with an empty pool", "come back, with empty pools", "would come back"))
		return
	}
	var bytes uint64
	engines := 0
	t := newTable("CLUSTER", "MEMBER", "STATE", "PAGES", "OF", "ENGINES", "OTHER NODES", "NOTE").numbers(3, 4, 5, 6)
	for _, m := range r.Members {
		bytes += m.UsedBytes
		engines += m.Engines
		if m.State == stateAbsent || m.State == stateUnknown {
			t.add(m.Cluster.String(), m.Member, m.State, "", "", "", strconv.Itoa(int(m.OtherNodes)), m.note())
			continue
		}
		t.add(m.Cluster.String(), m.Member, m.State, size(m.UsedBytes), size(m.CapacityBytes), strconv.Itoa(m.Engines),
			strconv.Itoa(int(m.OtherNodes)), m.note())
	}
	_, _ = fmt.Fprintf(w, "%s: %s with %s of pages and %s\n\n", r.Machine, r.movers("leaves", "leave", "would leave"), size(bytes), several(engines, "engine"))
	t.write(w)
	_, _ = fmt.Fprintln(w, "\nThe pages that were read most are taken over by other members that have room (spec.update.drainBudget). The others")
	_, _ = fmt.Fprintln(w, "are missed from now on, and computed again; none is wrong. Engines of this machine go on without cache, and attach")
	_, _ = fmt.Fprintln(w, "again when its nodes are back.")
	if !r.Cordoned {
		_, _ = fmt.Fprintf(w, "%[1]s is not cordoned: SGLang pods that are scheduled there now run without cache until the nodes are back: "+
			"kubectl cordon %[1]s\n", r.Machine)
	}
}

// movers says how many members move, with the verb for one, for several, or for a dry run.
func (r *drainReport) movers(one, many, would string) string {
	verb := one
	if len(r.Members) > 1 {
		verb = many
	}
	if r.DryRun {
		verb = would
	}
	return several(len(r.Members), "member") + " " + verb
}

func (m drainMember) note() string {
	const last = "no node of the cluster serves elsewhere: all its engines go on without cache"
	switch {
	case m.OtherNodes > 0:
		return m.Note
	case m.Note == "":
		return last
	}
	return m.Note + "; " + last
}

// after says what has happened, and what comes next.
func (r *drainReport) after(w io.Writer) {
	if r.DryRun {
		_, _ = fmt.Fprintln(w, "nothing was changed (--dry-run)")
		return
	}
	switch {
	case r.leaves() && r.Complete:
		_, _ = fmt.Fprintf(w, "%s is drained, and all members have left\n", r.Machine)
	case r.leaves() && !r.Already:
		_, _ = fmt.Fprintf(w, "%s is labelled %s=%s; add --wait to see its members leave\n", r.Machine, v1alpha1.LabelDrain, v1alpha1.DrainNow)
	case r.Complete:
		_, _ = fmt.Fprintf(w, "%s: all members serve\n", r.Machine)
	}
	if r.leaves() {
		_, _ = fmt.Fprintf(w, "next: after the maintenance: kubectl peercache undrain %s\n", r.Machine)
	}
}
