// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"fmt"
	"io"
	"strconv"

	"github.com/peercache/peercache/api/v1alpha1"
)

// stateUnknown is the state of a node that does not answer.
const stateUnknown = "unknown"

// The actions of a drainReport.
const (
	actionDrain   = "drain"
	actionUndrain = "undrain"
)

// drainReport is the report of drain and undrain.
type drainReport struct {
	Machine string `json:"machine"`
	// Action is actionDrain or actionUndrain.
	Action string `json:"action"`
	// Already is true where the label needed no change.
	Already bool `json:"already"`
	DryRun  bool `json:"dryRun,omitempty"`
	// Cordoned is true where Kubernetes schedules no pods on the machine to be drained.
	Cordoned bool `json:"cordoned"`
	// Complete is true after --wait has seen all members leave or return.
	Complete bool `json:"complete"`
	// Members are the members that belong on the machine, in their state before the command.
	Members []drainMember `json:"members"`
}

func (r *drainReport) leaves() bool { return r.Action == actionDrain }

// drainMember is a member that leaves its cluster or returns to it.
type drainMember struct {
	Cluster identity `json:"cluster"`
	Member  string   `json:"member"`
	Pod     string   `json:"pod,omitempty"`
	// State is joining, active or draining. It is absent where no pod runs, and unknown where the node does not answer.
	State         string `json:"state"`
	UsedBytes     uint64 `json:"usedBytes"`
	CapacityBytes uint64 `json:"capacityBytes"`
	// Engines is the number of engines that are attached: SGLang ranks of this machine.
	Engines int `json:"engines"`
	// Elsewhere is the number of ready members of the cluster on other machines.
	Elsewhere int32  `json:"membersElsewhere"`
	Note      string `json:"note,omitempty"`
}

// text is part of report. The commands call writeBefore and writeAfter themselves.
func (r *drainReport) text(w io.Writer) {
	r.writeBefore(w)
	r.writeAfter(w)
}

// writeBefore prints what will happen.
func (r *drainReport) writeBefore(w io.Writer) {
	switch {
	case r.Already && r.leaves():
		_, _ = fmt.Fprintf(w, "%s is drained already\n", r.Machine)
		return
	case r.Already:
		_, _ = fmt.Fprintf(w, "%s is not drained\n", r.Machine)
		return
	case !r.leaves():
		_, _ = fmt.Fprintf(w, "%s: %s\n", r.Machine, r.membersWithVerb("comes back", "come back", "would come back"))
		return
	}
	var bytes uint64
	engines := 0
	t := newTable("CLUSTER", "MEMBER", "STATE", "PAGES", "OF", "ENGINES", "ELSEWHERE", "NOTE").numbers(3, 4, 5, 6)
	for _, m := range r.Members {
		bytes += m.UsedBytes
		engines += m.Engines
		if m.State == stateAbsent || m.State == stateUnknown {
			t.add(m.Cluster.String(), m.Member, m.State, "", "", "", strconv.Itoa(int(m.Elsewhere)), m.note())
			continue
		}
		t.add(m.Cluster.String(), m.Member, m.State, size(m.UsedBytes), size(m.CapacityBytes), strconv.Itoa(m.Engines),
			strconv.Itoa(int(m.Elsewhere)), m.note())
	}
	_, _ = fmt.Fprintf(w, "%s: %s with %s of pages and %s\n\n", r.Machine, r.membersWithVerb("leaves", "leave", "would leave"), size(bytes), plural(engines, "engine"))
	t.write(w)
	_, _ = fmt.Fprintln(w, "\nOther members that have room take over the most-read pages (spec.update.drainBudget). Reads of the other pages are")
	_, _ = fmt.Fprintln(w, "misses; engines compute them again. Engines of this machine run without cache, and attach again when its members")
	_, _ = fmt.Fprintln(w, "are back.")
	if !r.Cordoned {
		_, _ = fmt.Fprintf(w, "%[1]s is not cordoned: SGLang pods that are scheduled there now run without cache until the members are back: "+
			"kubectl cordon %[1]s\n", r.Machine)
	}
}

// membersWithVerb counts the members, with the verb for one member, for several, or for a dry run.
func (r *drainReport) membersWithVerb(one, many, would string) string {
	verb := one
	if len(r.Members) > 1 {
		verb = many
	}
	if r.DryRun {
		verb = would
	}
	return plural(len(r.Members), "member") + " " + verb
}

func (m drainMember) note() string {
	const last = "no member of the cluster serves elsewhere: all its engines run without cache"
	switch {
	case m.Elsewhere > 0:
		return m.Note
	case m.Note == "":
		return last
	}
	return m.Note + "; " + last
}

// writeAfter prints what has happened, and the next step.
func (r *drainReport) writeAfter(w io.Writer) {
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
