#include "base/clock.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <type_traits>

namespace peercache {
namespace {

TimePoint Of(clockid_t clock) {
  timespec at{};
  EXPECT_EQ(clock_gettime(clock, &at), 0);
  return TimePoint(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
}

// A slewed clock has left the raw one by far more than two readings are apart, on every machine
// whose time was ever set right.
TEST(Clock, IsTheOneThatNoTimeDaemonSlews) {
  for (int i = 0; i < 100; ++i) {
    const TimePoint before = Of(CLOCK_MONOTONIC_RAW);
    const TimePoint now = Clock::now();
    ASSERT_LE(before, now);
    ASSERT_LE(now, Of(CLOCK_MONOTONIC_RAW));
  }
}

// A time of steady_clock where one of this clock is due must be an error of the compiler.
TEST(Clock, ItsTimesDoNotMixWithThoseOfSteadyClock) {
  using Slewed = std::chrono::steady_clock::time_point;
  static_assert(!std::is_same_v<TimePoint, Slewed>);
  static_assert(!std::is_convertible_v<Slewed, TimePoint>);
  static_assert(!std::is_convertible_v<TimePoint, Slewed>);
  static_assert(!std::is_invocable_v<std::minus<>, TimePoint, Slewed>);
  static_assert(!std::is_invocable_v<std::less<>, TimePoint, Slewed>);
  static_assert(std::chrono::is_clock_v<Clock>);
}

TEST(Clock, AWaitEndsNotBeforeItsDeadline) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const TimePoint deadline = Clock::now() + milliseconds(20);
  EXPECT_FALSE(never.wait_until(lock, deadline, [] { return false; }));
  EXPECT_GE(Clock::now(), deadline);
}

}  // namespace
}  // namespace peercache
