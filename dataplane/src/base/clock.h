// Time of the data plane: monotonic nanoseconds of this machine. Times of two machines are never
// compared; what crosses the wire is either a duration or a stamp that only its issuer interprets.
// Functions that decide by time take `now` as an argument, so tests choose it.
#pragma once

#include <chrono>
#include <cstdint>

namespace peercache {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;
using std::chrono::milliseconds;

inline int64_t ToMillis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace peercache
