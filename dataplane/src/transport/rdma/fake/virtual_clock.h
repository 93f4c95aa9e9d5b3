// VirtualClock: while it runs, Clock (base/clock.h) of the whole process stands still but for Set.
// For tests that link virtual_clock.cc, which takes the place of clock_gettime.
#pragma once

#include "base/clock.h"

namespace peercache::testing {

class VirtualClock {
 public:
  // Stands at what it is now.
  VirtualClock();
  ~VirtualClock();
  VirtualClock(const VirtualClock&) = delete;
  VirtualClock& operator=(const VirtualClock&) = delete;
  void Set(TimePoint now);
};

}  // namespace peercache::testing
