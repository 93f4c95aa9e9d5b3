// By when the pages of a batch are waited for.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace peercache {

// Slowest rate at which a peer may deliver pages; with it every call is bounded by its size.
inline constexpr uint64_t kMinBytesPerMilli = 64 << 10;

inline TimePoint DeadlineFor(uint64_t bytes, Duration peer_timeout, TimePoint start) {
  return start + peer_timeout + milliseconds(static_cast<int64_t>(bytes / kMinBytesPerMilli));
}

}  // namespace peercache
