// RestingSlots: where slots in quarantine wait until no reader can hold a record of them, and how
// they leave: their headers are void in memory before anybody may write a byte of them.
//
//   resting.Add(slot, reuse_at);
//   std::vector<Slot*> due = resting.TakeDue(now, 1024);   // under the pool's mutex
//   ... voids their headers, without the mutex; then they are free ...
//
// A slot that was taken is nobody else's until whoever took it sets it free.
//
// Not thread-safe: the pool calls it under its mutex.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "pool/slot.h"

namespace peercache {

class RestingSlots {
 public:
  void Add(Slot* slot, TimePoint reuse_at) {
    resting_.push_back({reuse_at, slot});
    std::push_heap(resting_.begin(), resting_.end(), std::greater<>());
  }

  // Those that may be reused, at most `most`.
  std::vector<Slot*> TakeDue(TimePoint now, size_t most) {
    std::vector<Slot*> due;
    for (size_t i = 0; i < most; ++i) {
      if (resting_.empty() || now <= resting_.front().reuse_at) break;
      std::pop_heap(resting_.begin(), resting_.end(), std::greater<>());
      Resting& last = resting_.back();
      // Only unpinned pages are withdrawn and nobody pins them after, so none is pinned here. Were
      // that ever wrong, this keeps the reader from paying with wrong bytes.
      if (last.slot->pinned()) {
        last.reuse_at = now;
        std::push_heap(resting_.begin(), resting_.end(), std::greater<>());
        continue;
      }
      due.push_back(last.slot);
      resting_.pop_back();
    }
    return due;
  }

  // When the next one may be reused; TimePoint::max() when none rests.
  TimePoint next() const { return resting_.empty() ? TimePoint::max() : resting_.front().reuse_at; }

 private:
  struct Resting {
    TimePoint reuse_at;
    Slot* slot;
    bool operator>(const Resting& other) const { return reuse_at > other.reuse_at; }
  };
  std::vector<Resting> resting_;  // heap, next to be reused first
};

}  // namespace peercache
