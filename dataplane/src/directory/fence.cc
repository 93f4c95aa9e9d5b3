#include "directory/fence.h"

#include "directory/lease.h"

namespace peercache {

// model: former_life
Fence::Fence(uint64_t self, uint64_t incarnation, OwnerTimes times, TimePoint now, uint64_t epoch)
    : self_(self),
      incarnation_(incarnation),
      times_(times),
      epoch_(epoch),
      silent_after_(now + Padded(times.owner_ttl)) {}

OwnerStamp Fence::Begin() {  // model: Begin
  begun_ = true;
  return {.node = self_,
          .incarnation = incarnation_,
          .epoch = epoch_,
          .echo = echo_,
          .sequence = ++sequence_,
          .ttl_ms = static_cast<uint32_t>(times_.owner_ttl.count()),
          .lease_ms = Lease::OnTheWire(times_.lease)};
}

bool Fence::Answered(const OwnerStamp& sent, int64_t shard_stamp, uint64_t shard_instance,
                     TimePoint now) {
  const bool known = shard_instance_ != 0;  // model: Answered
  const bool same = known && shard_instance == shard_instance_;
  if (!Counts(sent)) {
    if (same && shard_stamp > echo_) Hear(shard_stamp, now);
    return false;
  }
  // Answers of two instances can overtake each other; adopting whichever came last needs no order
  // among instances. A wrong guess costs one more epoch, an echo of the other instance is void.
  const bool restarted = known && !same;
  if (restarted) Raise();  // model: raise_on_restart
  if (!same || shard_stamp > echo_) Hear(shard_stamp, now);
  shard_instance_ = shard_instance;
  return restarted;
}

// model: Failed, raise_epoch
void Fence::Failed(const OwnerStamp& sent) {
  if (Counts(sent)) Raise();
}

void Fence::GiveUp() {  // model: GiveUp
  if (begun_) Raise();
}

// model: count_from_hearing
void Fence::Hear(int64_t shard_stamp, TimePoint now) {
  echo_ = shard_stamp;
  heard_ = std::max(heard_, now);
}

void Fence::Raise() {
  silent_after_ = std::max(silent_after_, heard_ + Padded(times_.owner_ttl));
  ++epoch_;
  begun_ = false;
}

}  // namespace peercache
