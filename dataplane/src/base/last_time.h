// LastTime: when something happened last, in 4 bytes, to tell later for how long it has not.
//
//   LastTime served;               // never
//   served.Raise(now);             // by one machine's Clock, in any order
//   served.MillisAgo(now)          // at most the true time; kNever if it has never happened
//
// Whole milliseconds, modulo 2^32. The difference of two of them counts as signed, so what lies
// more than 24 days back may pass for just now: too short a time is told then, never one that is
// too long.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace peercache {

class LastTime {
 public:
  static constexpr uint32_t kNever = UINT32_MAX;

  // The later one stays: callers may have read their clocks some time ago.
  void Raise(TimePoint now) {
    const uint32_t at = InMillis(now);
    if (at_ == 0 || Difference(at, at_) > 0) at_ = at == 0 ? 1 : at;  // 0 is for never
  }
  uint32_t MillisAgo(TimePoint now) const {
    if (at_ == 0) return kNever;
    // Less one: both were rounded down, this one perhaps by more.
    return static_cast<uint32_t>(std::max(Difference(InMillis(now), at_) - 1, int64_t{0}));
  }

 private:
  static uint32_t InMillis(TimePoint at) {
    return static_cast<uint32_t>(at.time_since_epoch() / std::chrono::milliseconds(1));
  }
  static int64_t Difference(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b); }

  uint32_t at_ = 0;
};
static_assert(sizeof(LastTime) == 4);

}  // namespace peercache
