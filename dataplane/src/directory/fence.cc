#include "directory/fence.h"

namespace peercache {

Fence::Fence(uint64_t self, uint64_t incarnation, Duration owner_ttl)
    : self_(self), incarnation_(incarnation), owner_ttl_(owner_ttl) {}

OwnerStamp Fence::Begin(TimePoint now) {
  last_begin_ = std::max(last_begin_, now);
  begun_ = true;
  return {self_, incarnation_, epoch_, echo_, ++sequence_};
}

bool Fence::Answered(const OwnerStamp& sent, int64_t shard_stamp, uint64_t shard_incarnation,
                     TimePoint /*now*/) {
  const bool known = shard_incarnation_ != 0;
  const bool same = known && shard_incarnation == shard_incarnation_;
  if (!Counts(sent)) {
    if (same) echo_ = std::max(echo_, shard_stamp);
    return false;
  }
  // Answers of two instances can overtake each other; adopting whichever came last needs no order
  // among incarnations. A wrong guess costs one more epoch, an echo of the other instance is void.
  const bool restarted = known && !same;
  if (restarted) Raise();
  echo_ = same ? std::max(echo_, shard_stamp) : shard_stamp;
  shard_incarnation_ = shard_incarnation;
  return restarted;
}

void Fence::Failed(const OwnerStamp& sent, TimePoint /*now*/) {
  if (Counts(sent)) Raise();
}

void Fence::GiveUp() {
  if (begun_) Raise();
}

void Fence::Raise() {
  silent_after_ = std::max(silent_after_, last_begin_ + Padded(owner_ttl_));
  ++epoch_;
  begun_ = false;
}

}  // namespace peercache
