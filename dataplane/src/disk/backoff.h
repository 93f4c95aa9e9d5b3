// Backoff: until when what has failed is not tried again: for `first`, and each time that it fails
// again for twice as long, `most` at most. Once nothing has failed for `calm` it begins anew. Pure.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "disk/limits.h"

namespace peercache::disk {

class Backoff {
 public:
  explicit Backoff(const BackoffLimits& limits) : limits_(limits) {}

  void Failed(TimePoint now) {
    wait_ = now > until_ + limits_.calm ? limits_.first
                                        : std::clamp(2 * wait_, limits_.first, limits_.most);
    until_ = now + wait_;
  }
  // Tried in vain, which nobody waited for: no reason to wait longer than at first.
  void Tried(TimePoint now) { until_ = now + limits_.first; }
  bool Waits(TimePoint now) const { return now < until_; }

 private:
  const BackoffLimits limits_;
  Duration wait_{};
  TimePoint until_{};
};

}  // namespace peercache::disk
