#include "base/last_time.h"

#include <gtest/gtest.h>

#include <random>

namespace peercache {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;

TimePoint At(Duration since) { return TimePoint(hours(1) + since); }

TEST(LastTime, NeverUntilItHappens) {
  LastTime last;
  EXPECT_EQ(last.MillisAgo(At(hours(9999))), LastTime::kNever);
  last.Raise(At({}));
  EXPECT_EQ(last.MillisAgo(At({})), 0u);
  EXPECT_EQ(last.MillisAgo(At(milliseconds(1500))), 1499u);
}

TEST(LastTime, TellsAtMostTheTrueTime) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const TimePoint then = At(microseconds(random() % 10'000'000));
    const Duration ago = microseconds(random() % 5'000'000);
    LastTime last;
    last.Raise(then);
    const milliseconds told(last.MillisAgo(then + ago));
    ASSERT_LE(told, ago);
    ASSERT_GE(told + milliseconds(2), ago);
  }
}

TEST(LastTime, TheLaterOneStays) {
  LastTime last;
  last.Raise(At(milliseconds(500)));
  last.Raise(At(milliseconds(100)));
  EXPECT_EQ(last.MillisAgo(At(milliseconds(700))), 199u);
  EXPECT_EQ(last.MillisAgo(At(milliseconds(300))), 0u) << "asked by a clock that was read before";
}

// Whatever lies between: a stamp that is too old to compare must not keep a new one from counting.
TEST(LastTime, NeverTellsMoreThanTheTrueTimeAfterAnyPause) {
  constexpr int64_t kWrap = int64_t{1} << 32;
  for (int64_t pause = 1; pause < 3 * kWrap; pause += kWrap / 64 + 12'345) {
    LastTime last;
    last.Raise(At({}));
    EXPECT_LE(int64_t{last.MillisAgo(At(milliseconds(pause)))}, pause);
    last.Raise(At(milliseconds(pause)));
    for (int64_t ago = 0; ago < 2 * kWrap; ago += kWrap / 16 + 777)
      ASSERT_LE(int64_t{last.MillisAgo(At(milliseconds(pause + ago)))}, ago) << pause;
  }
}

TEST(LastTime, ThePointThatStandsForNeverIsMoved) {
  LastTime last;
  const TimePoint zero(milliseconds(int64_t{1} << 32));
  last.Raise(zero);
  EXPECT_EQ(last.MillisAgo(zero + milliseconds(10)), 8u);
}

}  // namespace
}  // namespace peercache
