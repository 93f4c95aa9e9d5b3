// Fence: an owner's knowledge of one shard, and when the owner may rely on the shard's silence.
//
// Pure state machine; the publisher drives one per peer. See shard.h for the other half.
//
//   Begin(now) -> OwnerStamp     stamp for a message about to be sent
//   Answered(stamp, now)         an answer with the shard's stamp came
//   Failed(now)                  no answer, or kAborted: epoch + 1, everything must be re-published
//   SilentAfter()                no record of ours from an epoch before the current one is served by
//                                that shard after this time (last Begin of the former epoch + ttl)
//
// Not thread-safe: the publisher guards it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "directory/shard.h"

namespace peercache {

class Fence {
 public:
  Fence(uint64_t self, uint64_t incarnation, Duration owner_ttl);

  OwnerStamp Begin(TimePoint now);
  // `shard_incarnation` differs from the last one: the shard restarted and lost all; returns true
  // when the caller must re-publish. An answer to a message of a former epoch is ignored.
  bool Answered(const OwnerStamp& sent, int64_t shard_stamp, uint64_t shard_incarnation,
                TimePoint now);
  void Failed(const OwnerStamp& sent, TimePoint now);
  uint64_t epoch() const { return epoch_; }
  TimePoint SilentAfter() const { return silent_after_; }

 private:
  uint64_t self_;
  uint64_t incarnation_;
  Duration owner_ttl_;
  uint64_t epoch_ = 1;
  int64_t echo_ = 0;
  uint64_t shard_incarnation_ = 0;
  TimePoint last_begin_{};
  TimePoint silent_after_{};
};

}  // namespace peercache
