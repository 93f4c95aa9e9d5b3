// How tests wait for what has to happen.
#pragma once

#include <thread>

#include "base/clock.h"

namespace peercache::testing {

// Ends a hang, and measures nothing: on a machine that is busy elsewhere, under a sanitizer, what
// takes a moment may take seconds.
inline constexpr std::chrono::seconds kEndsAHang{60};

template <typename Condition>
bool Eventually(const Condition& condition, Duration patience = kEndsAHang) {
  const TimePoint deadline = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

}  // namespace peercache::testing
