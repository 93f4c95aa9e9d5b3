// Time of the data plane: monotonic nanoseconds of this machine. Times of two machines are never
// compared; what crosses the wire is either a duration or a stamp that only its issuer interprets.
// Functions that decide by time take `now` as an argument, so tests choose it.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace peercache {

// CLOCK_MONOTONIC_RAW: the machine's oscillator as it is. CLOCK_MONOTONIC, which steady_clock is,
// follows a time daemon: chrony slews it by 8.3 % unless told otherwise, the kernel allows 10 %.
// Leases and silence of two machines could then differ by more than waits are padded for
// (directory/fence.h). So there is one clock for everything. Its times are a type of their own:
// they neither compare nor subtract with those of steady_clock. Waits until such a time go through
// the standard library, which waits for what is left and then looks at this clock again.
// It stands still in suspend, as CLOCK_MONOTONIC does. Cost: no system call, 20 to 30 ns as for
// steady_clock (x86-64 and arm64, Linux 5.3 and newer). model: raw_clock
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  static constexpr clockid_t kSource = CLOCK_MONOTONIC_RAW;

  static time_point now() noexcept {
    timespec at;
    clock_gettime(kSource, &at);  // fails only for a clock or an address that does not exist
    return time_point(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
  }
};

using TimePoint = Clock::time_point;
using Duration = Clock::duration;
using std::chrono::milliseconds;

inline int64_t ToMillis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace peercache
