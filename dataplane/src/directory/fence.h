// Fence: an owner's knowledge of one shard, and from when on the owner may rely on the shard's
// silence. Pure state machine; the publisher drives one per peer. See shard.h for the other half.
//
//   Begin() -> OwnerStamp     stamp for one message about to be sent; never send it twice
//   Answered(stamp, ...)      the shard accepted the message; true: the shard has restarted
//   Failed(stamp)             no answer, or a refusal (kAborted)
//   ReuseAfter(over, unserved)  when a slot that this shard had a record of may be reused
//
// Why a slot is never reused under a reader. A reader uses a record until (time it sent the lookup)
// + lease. So a slot may be reused more than one lease after the last instant at which any shard
// could have served its record. For each shard that may have the record:
//
//   a. It acknowledged the withdrawal at local time t: it served the record before t at the latest,
//      and nothing brings the record back. All publishes of the record were over when the
//      withdrawal began (the publisher pins the page while one is in flight), each in one of two
//      ways:
//        answered   the message has been processed; the shard drops further copies of it, because
//                   it remembers the sequence numbers of an epoch;
//        failed     the epoch was raised before the withdrawal began, so the shard has learned the
//                   newer epoch from the withdrawal itself and refuses the late arrival.
//   b. It did not answer: Failed raises the epoch. Every message that could have put the record
//      there, or kept it fresh, is of a former epoch and echoes a stamp that was heard before the
//      epoch was raised. So the owner is fresh until (last time a stamp was heard) + owner_ttl at
//      most = SilentAfter(). Only a message of the newer epoch could extend the freshness, and that
//      drops the record. When the messages were sent is of no account, nor when they arrive.
//   c. It restarted: the new instance answers in place of the one that may still be serving others
//      (a ghost). Answered sees another instance and raises the epoch, so (b) covers the ghost. The
//      stamps of two instances are incomparable (OwnerTable), so a copy of an old message is never
//      fresh in the new instance, and the newer epoch then drops it.
//   d. It is a ghost from the start: a copy of a message that another instance answered. All that
//      keeps the owner fresh there was heard by a former process of this owner: hence SilentAfter
//      is never before (start of this fence) + owner_ttl.
//
// ReuseAfter is the maximum of (a) and SilentAfter plus the lease, which is right in all cases.
//
// In (a) the shard says for how long it had not served the record when it answered (shard.h). That
// is a duration by the shard's clock, and the answer came at t at the latest: so it served the
// record last before t less that duration. Nothing of before is missing. What the shard had served
// under a former epoch is in (b); a record that it has lost since counts as served just now.
// What nobody but others know is not said here: of a shard whose note was removed, and what the
// owner has sent itself (Victim::told).
// Assumed: clocks whose rates differ by less than Padded() allows. Those of owners may stand still
// for as long as they like. docs/dev/protocol.md says what happens when others do. The argument is
// checked exhaustively, within bounds, by dataplane/model; comments that begin with "model" name
// its steps and guards where the code takes them.
//
// A second fence for the same peer begins above every epoch of the first, or the shard refuses it.
// Not thread-safe: the publisher guards it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "directory/shard.h"

namespace peercache {

// A wait on one machine that must outlast the same duration on another. Nobody slews Clock, and
// oscillators are within 0.05 % of the time, so 1/64 leaves an ample margin. model: pad_waits
constexpr Duration Padded(Duration d) { return d + d / 64; }
// A duration that another machine has measured: at least so much of it has passed on this one.
constexpr Duration Shrunk(Duration d) { return d - d / 64; }

// When no reader holds a record any more that was served last so long before `over`; LastTime's.
constexpr TimePoint UnheldAfter(TimePoint over, uint32_t unserved_ms, Duration lease) {
  // Longer than a lease is as good as for ever.
  const Duration unserved = std::min<Duration>(milliseconds(unserved_ms), 2 * Padded(lease));
  return over - Shrunk(unserved) + Padded(lease);
}

// What this node's records may be used for; travels in its stamps.
struct OwnerTimes {
  milliseconds lease{1000};
  milliseconds owner_ttl{3000};
};

class Fence {
 public:
  // `now`: any time after a former process of this node has ceased to send. `epoch`: the first.
  Fence(uint64_t self, uint64_t incarnation, OwnerTimes times, TimePoint now, uint64_t epoch = 1);

  OwnerStamp Begin();
  // `shard_instance` differs from the last one: the shard restarted and lost all; the epoch has
  // been raised, and true tells the caller to re-publish everything. An answer to a message of a
  // former epoch says nothing about the present one (see Counts) and only refreshes the echo.
  // `now` must have been read after the answer was received.
  bool Answered(const OwnerStamp& sent, int64_t shard_stamp, uint64_t shard_instance,
                TimePoint now);
  // Raises the epoch, unless it has been raised since `sent` was begun: then the late arrival of
  // `sent` is harmless already. epoch() tells whether everything must be re-published.
  void Failed(const OwnerStamp& sent);
  // For a withdrawal that is not even tried (breaker open, peer gone from the view): afterwards
  // nothing that was ever begun is of the current epoch.
  void GiveUp();

  uint64_t epoch() const { return epoch_; }
  // What an answered publish put into the shard is still of the current epoch.
  bool Counts(const OwnerStamp& sent) const { return sent.epoch == epoch_; }
  // No record of ours from an epoch before the current one is served by that shard after this time.
  TimePoint SilentAfter() const { return silent_after_; }
  // Nor held by a reader after this one.
  TimePoint UnheldAfter() const { return silent_after_ + Padded(times_.lease); }
  // When a slot withdrawn from this shard may be reused; strictly later is right. `over`: when the
  // withdrawal's answer came, or, without an answer, any time since Failed or GiveUp.
  // `unserved_ms`: what an answer that Counts has said of the record (Shard::Withdraw); else 0.
  // model: wait_silence, wait_lease
  TimePoint ReuseAfter(TimePoint over, uint32_t unserved_ms = 0) const {
    return std::max(peercache::UnheldAfter(over, unserved_ms, times_.lease), UnheldAfter());
  }

 private:
  void Raise();
  void Hear(int64_t shard_stamp, TimePoint now);

  uint64_t self_;
  uint64_t incarnation_;
  OwnerTimes times_;
  uint64_t epoch_;
  uint64_t sequence_ = 0;
  int64_t echo_ = 0;
  uint64_t shard_instance_ = 0;  // 0: never answered
  bool begun_ = false;           // in the current epoch
  TimePoint heard_{};            // the newest echo
  TimePoint silent_after_;
};

}  // namespace peercache
