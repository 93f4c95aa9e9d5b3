// RateLimit: how often something may happen on average, and how often in a row.
//
//   RateLimit limit{milliseconds(100), 20};   // 10 a second, 20 at once
//   Meter meter;
//   if (meter.Full(limit, now)) return;       // beyond it
//   meter.Add(limit, now);
//
// A meter is one point in time (the generic cell rate algorithm): when all that was added will have
// drained at the average rate. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace peercache {

struct RateLimit {
  Duration interval{};  // between two events at the average rate
  uint32_t burst = 1;   // events at once
};

class Meter {
 public:
  bool Full(const RateLimit& limit, TimePoint now) const {
    return drained_ - now > limit.interval * (int64_t{limit.burst} - 1);
  }
  void Add(const RateLimit& limit, TimePoint now) {
    drained_ = std::max(drained_, now) + limit.interval;
  }
  // One that was added does not count after all.
  void Remove(const RateLimit& limit) { drained_ -= limit.interval; }
  // Nothing that was added counts any more.
  bool Empty(TimePoint now) const { return drained_ <= now; }

 private:
  TimePoint drained_{};
};

}  // namespace peercache
