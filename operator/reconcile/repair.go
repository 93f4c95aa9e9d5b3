// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// repairAgain is the time from the first repair of an object to the next one.
	repairAgain = 5 * time.Second
	// repairAtLeast is the longest time for which an object stays as somebody else has made it.
	repairAtLeast = 5 * time.Minute
)

// record is what the operator remembers of an object that it wrote. Another operator that takes over begins anew.
type record struct {
	// repaired is when the operator last undid what somebody else had done to it, and wait the least time to the next repair.
	repaired time.Time
	wait     time.Duration
	// hash is the digest of an object that the API server stores otherwise than it was applied, and stored the fields of
	// that object as they are stored.
	hash   string
	stored map[string]any
}

// records has one for each object of a cluster, by its description.
type records map[string]*record

func (r records) of(name string) *record {
	if r[name] == nil {
		r[name] = &record{}
	}
	return r[name]
}

// repairIn says how long a repair has to wait; 0 when it is to be made now.
func (r *record) repairIn(now time.Time) time.Duration {
	return max(0, r.repaired.Add(r.wait).Sub(now))
}

// repairedAt notes a repair that was made. The first is made at once. Somebody who undoes every repair would otherwise have
// the API server written and nodes restarted without a pause: each further repair waits twice as long, until the object has
// stood for twice the wait as the operator wrote it.
func (r *record) repairedAt(now time.Time) {
	if now.Sub(r.repaired) < 2*r.wait {
		r.wait = min(2*r.wait, repairAtLeast)
	} else {
		r.wait = repairAgain
	}
	r.repaired = now
}

// note remembers what the API server made of an applied object, and says what it altered that was not known yet. Admission
// webhooks and policies alter fields, and an API server drops fields of features that it does not have. To apply the same
// again would change nothing.
func (r *record) note(hash string, want, after map[string]any) difference {
	known := r.hash == hash
	altered := drift(want, after)
	r.hash, r.stored = "", nil
	if altered.path == "" {
		return difference{}
	}
	r.hash, r.stored = hash, overlap(want, after)
	if known {
		return difference{}
	}
	return difference{path: altered.path, want: altered.have, have: altered.want}
}

// expected is what an applied object looks like when nobody has changed it.
func (r records) expected(name, hash string, want map[string]any) map[string]any {
	if known := r[name]; known != nil && known.hash == hash {
		return known.stored
	}
	return want
}

// tellRepair records that somebody else changed or deleted an object.
func (r *Reconciler) tellRepair(cluster *v1alpha1.PeerCacheCluster, c *change, again time.Duration) {
	what := "was deleted by someone else"
	if c.live != nil {
		what = "was changed by someone else at " + c.first.path
	}
	if again <= repairAgain {
		r.Events.Eventf(cluster, c.live, corev1.EventTypeNormal, "Repaired", "Apply",
			"%s %s; change the PeerCacheCluster instead", c.name, what)
		return
	}
	r.Events.Eventf(cluster, c.live, corev1.EventTypeWarning, "RepairedAgain", "Apply",
		"%s %s, after every repair: the next one waits %s; find who does it in metadata.managedFields of the object or in the API "+
			"server's audit log, and change the PeerCacheCluster instead", c.name, what, again)
}
