// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/drift"
)

const (
	// minRepairDelay is the time from the first repair of an object to the next one.
	minRepairDelay = 5 * time.Second
	// MaxRepairDelay is the longest time for which the operator leaves an object as somebody else changed it.
	MaxRepairDelay = 5 * time.Minute
)

// record is what the operator remembers of an object that it wrote.
type record struct {
	// repaired is when the operator last undid a change by somebody else, and wait the least time from then to the next
	// repair.
	repaired time.Time
	wait     time.Duration
	// hash is the digest of an object that the API server does not store as applied, and stored its fields as stored.
	hash   string
	stored map[string]any
}

// records maps the description of an object to its record.
type records map[string]*record

func (r *records) of(name string) *record {
	if *r == nil {
		*r = records{}
	}
	if (*r)[name] == nil {
		(*r)[name] = &record{}
	}
	return (*r)[name]
}

// repairDelay is how long the next repair has to wait; 0 when it may be made now.
func (r *record) repairDelay(now time.Time) time.Duration {
	return max(0, r.repaired.Add(r.wait).Sub(now))
}

// noteRepair notes a repair. The first repair is made at once. Each further one waits twice as long as the one before,
// until the object has kept the operator's version for twice the wait. Otherwise somebody who undoes every repair would
// have the API server written and nodes restarted without a pause.
func (r *record) noteRepair(now time.Time) {
	if now.Sub(r.repaired) < 2*r.wait {
		r.wait = min(2*r.wait, MaxRepairDelay)
	} else {
		r.wait = minRepairDelay
	}
	r.repaired = now
}

// noteStored remembers how the API server stored an applied object, and returns a difference that was not known yet.
// Admission webhooks and policies change fields, and an API server drops fields of features that it does not have.
// Applying the same again would change nothing.
func (r *record) noteStored(hash string, want, after map[string]any) drift.Difference {
	known := r.hash == hash
	altered := drift.Find(want, after)
	r.hash, r.stored = "", nil
	if altered.Path == "" {
		return drift.Difference{}
	}
	r.hash, r.stored = hash, drift.Overlap(want, after)
	if known {
		return drift.Difference{}
	}
	return drift.Difference{Path: altered.Path, Want: altered.Have, Have: altered.Want}
}

// expected is the object as it is stored when nobody has changed it.
func (r records) expected(name, hash string, want map[string]any) map[string]any {
	if known := r[name]; known != nil && known.hash == hash {
		return known.stored
	}
	return want
}

// recordRepair records an event: somebody else changed or deleted the object.
func (a *Applier) recordRepair(cluster *v1alpha1.PeerCacheCluster, c *change, again time.Duration) {
	what := "was deleted by someone else"
	if c.live != nil {
		what = "was changed by someone else at " + c.first.Path
	}
	if again <= minRepairDelay {
		a.Events.Eventf(cluster, c.live, corev1.EventTypeNormal, "Repaired", "Apply",
			"%s %s; change the PeerCacheCluster instead", c.name, what)
		return
	}
	a.Events.Eventf(cluster, c.live, corev1.EventTypeWarning, "RepairedAgain", "Apply",
		"%s %s, after every repair: the next one waits %s; find who does it in metadata.managedFields of the object or in the API "+
			"server's audit log, and change the PeerCacheCluster instead", c.name, what, again)
}
