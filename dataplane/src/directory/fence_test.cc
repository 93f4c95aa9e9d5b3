#include "directory/fence.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

constexpr OwnerTimes kTimes{.lease = milliseconds(1000), .owner_ttl = milliseconds(3000)};
constexpr Duration kTtl = kTimes.owner_ttl, kLease = kTimes.lease;

// The fences below start at 0, long before anything happens.
TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }
Fence MakeFence() { return Fence(7, 3, kTimes, TimePoint()); }

// Of the clock that Clock is: chrony slews CLOCK_MONOTONIC by 1/12 unless told otherwise, the raw
// one is the oscillator. Those of servers are within 100 ppm; a kernel that has to calibrate one
// accepts an error of 500.
constexpr double kRateError = 0.0005 + (Clock::kSource == CLOCK_MONOTONIC_RAW ? 0.0 : 1.0 / 12);

TEST(Fence, AFastOwnerOutwaitsASlowReader) {
  for (const Duration d : {kLease, kTtl, Duration(milliseconds(60))}) {
    const double waited = ToSeconds(Padded(d)) / (1 + kRateError);
    const double used = ToSeconds(d) / (1 - kRateError);
    EXPECT_GT(waited, used) << ToMillis(d) << " ms";
  }
}

TEST(Fence, AFastShardIsOutwaitedToo) {
  // What the shard's clock has shown, less what is taken off, has passed by the owner's as well.
  for (const Duration d : {kLease, kTtl, Duration(milliseconds(60))}) {
    const double passed = ToSeconds(d) / (1 + kRateError) * (1 - kRateError);
    EXPECT_LT(ToSeconds(Shrunk(d)), passed) << ToMillis(d) << " ms";
  }
}

TEST(Fence, ASlotRestsALeaseFromWhenItsRecordWasServedLast) {
  Fence fence = MakeFence();
  ASSERT_FALSE(fence.Answered(fence.Begin(), 500, 1, At(0)));
  EXPECT_EQ(fence.ReuseAfter(At(5000)), At(5000) + Padded(kLease));
  EXPECT_EQ(fence.ReuseAfter(At(5000), 0), At(5000) + Padded(kLease));
  EXPECT_EQ(fence.ReuseAfter(At(5000), 640), At(5000) - milliseconds(630) + Padded(kLease));
  // Longer than a lease by both clocks: at once.
  EXPECT_GT(fence.ReuseAfter(At(5000), 1031), At(5000));
  EXPECT_LT(fence.ReuseAfter(At(5000), 1040), At(5000));
  EXPECT_LT(fence.ReuseAfter(At(5000), 1'000'000), At(5000));
  EXPECT_LT(fence.ReuseAfter(At(5000), kNeverServed), At(5000));
}

// Whatever the shard says of the present epoch: under a former one it may have served the record
// until it was silent about that.
TEST(Fence, WhatAFormerEpochHasServedIsWaitedForAllTheSame) {
  Fence fence = MakeFence();
  ASSERT_FALSE(fence.Answered(fence.Begin(), 500, 1, At(0)));
  fence.Failed(fence.Begin());
  EXPECT_EQ(fence.UnheldAfter(), At(0) + Padded(kTtl) + Padded(kLease));
  EXPECT_EQ(fence.ReuseAfter(At(3500), kNeverServed), fence.UnheldAfter());
  EXPECT_LT(fence.ReuseAfter(At(6000), kNeverServed), At(6000));
}

TEST(Fence, StampsCarryEpochEchoFreshNumbersAndTheOwnersTimes) {
  Fence fence = MakeFence();
  const OwnerStamp first = fence.Begin();
  EXPECT_EQ(first.node, 7u);
  EXPECT_EQ(first.incarnation, 3u);
  EXPECT_EQ(first.epoch, 1u);
  EXPECT_EQ(first.echo, 0);
  EXPECT_EQ(first.ttl_ms, 3000u);
  EXPECT_EQ(first.lease_ms, 1000u);
  EXPECT_FALSE(fence.Answered(first, 500, 1, At(1)));
  const OwnerStamp second = fence.Begin();
  EXPECT_EQ(second.echo, 500);
  EXPECT_GT(second.sequence, first.sequence);
}

TEST(Fence, KeepsTheNewestEchoWhenAnswersOvertake) {
  Fence fence = MakeFence();
  const OwnerStamp a = fence.Begin(), b = fence.Begin();
  fence.Answered(b, 600, 1, At(2));
  fence.Answered(a, 500, 1, At(3));
  EXPECT_EQ(fence.Begin().echo, 600);
}

TEST(Fence, FailureRaisesTheEpochOnceForAllMessagesBegunBefore) {
  Fence fence = MakeFence();
  const OwnerStamp a = fence.Begin(), b = fence.Begin(), c = fence.Begin();
  fence.Failed(a);
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_FALSE(fence.Counts(b));
  const OwnerStamp d = fence.Begin();
  fence.Failed(b);
  fence.Failed(c);
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_TRUE(fence.Counts(d));
}

// A message that echoes a stamp was begun after the stamp was heard, whenever its sender read the
// clock, and may be heard at any later time.
TEST(Fence, SilenceCountsFromWhenTheNewestEchoWasHeard) {
  Fence fence = MakeFence();
  const OwnerStamp a = fence.Begin();
  fence.Answered(a, 500, 1, At(400));
  const OwnerStamp b = fence.Begin();
  fence.Failed(b);
  EXPECT_EQ(fence.SilentAfter(), At(400) + Padded(kTtl));
  EXPECT_EQ(fence.ReuseAfter(At(1000)), At(400) + Padded(kTtl) + Padded(kLease));
  EXPECT_EQ(fence.ReuseAfter(At(9000)), At(9000) + Padded(kLease));
}

TEST(Fence, WhoIsNotHeardFromCostsNoFurtherWaiting) {
  Fence fence = MakeFence();
  fence.Answered(fence.Begin(), 500, 1, At(0));
  for (int64_t ms = 1000; ms < 60'000; ms += 1000) {
    fence.Failed(fence.Begin());
    EXPECT_EQ(fence.SilentAfter(), At(0) + Padded(kTtl)) << ms;
  }
}

TEST(Fence, SilenceCoversEveryFormerEpochButNotThePresentOne) {
  Fence fence = MakeFence();
  fence.Answered(fence.Begin(), 500, 1, At(0));
  fence.Failed(fence.Begin());
  fence.Answered(fence.Begin(), 600, 1, At(2000));
  EXPECT_EQ(fence.SilentAfter(), At(0) + Padded(kTtl));
  fence.Answered(fence.Begin(), 700, 1, At(1500));  // the clock of another thread may lag
  fence.Failed(fence.Begin());
  EXPECT_EQ(fence.SilentAfter(), At(2000) + Padded(kTtl));
  EXPECT_EQ(fence.epoch(), 3u);
}

TEST(Fence, AnAnsweredWithdrawalWaitsForTheLeaseOnly) {
  Fence fence = MakeFence();
  fence.Answered(fence.Begin(), 500, 1, At(1));
  EXPECT_EQ(fence.ReuseAfter(At(50)), At(50) + Padded(kLease));
}

// A ghost of the shard may believe in this node for what a former process of it has echoed.
TEST(Fence, AFormerProcessOfTheOwnerKeepsItFreshForATtlAfterTheStart) {
  Fence fence(7, 3, kTimes, At(0));
  EXPECT_EQ(fence.SilentAfter(), At(0) + Padded(kTtl));
  EXPECT_EQ(fence.epoch(), 1u);
  fence.Answered(fence.Begin(), 500, 1, At(1));
  EXPECT_EQ(fence.ReuseAfter(At(50)), At(0) + Padded(kTtl) + Padded(kLease));
}

TEST(Fence, RestartOfTheShardRaisesTheEpochAndFencesTheFormerInstance) {
  Fence fence = MakeFence();
  EXPECT_FALSE(fence.Answered(fence.Begin(), 500, 1, At(1)));
  const OwnerStamp a = fence.Begin(), b = fence.Begin();
  EXPECT_TRUE(fence.Answered(a, 42, 2, At(30)));
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_EQ(fence.SilentAfter(), At(1) + Padded(kTtl));
  EXPECT_EQ(fence.Begin().echo, 42);
  // A second answer of before tells nothing new.
  EXPECT_FALSE(fence.Answered(b, 43, 2, At(32)));
  EXPECT_EQ(fence.epoch(), 2u);
}

TEST(Fence, LateAnswerOfTheFormerInstanceDoesNotBringItsEchoBack) {
  Fence fence = MakeFence();
  fence.Answered(fence.Begin(), 500, 1, At(1));
  const OwnerStamp late = fence.Begin(), a = fence.Begin();
  fence.Answered(a, 42, 2, At(30));
  EXPECT_FALSE(fence.Answered(late, 900, 1, At(31)));
  EXPECT_EQ(fence.Begin().echo, 42);
}

TEST(Fence, AnswerOfAFormerEpochRefreshesTheEchoAndNothingElse) {
  Fence fence = MakeFence();
  fence.Answered(fence.Begin(), 500, 1, At(1));
  const OwnerStamp slow = fence.Begin(), lost = fence.Begin();
  fence.Failed(lost);
  EXPECT_FALSE(fence.Answered(slow, 700, 1, At(1020)));
  EXPECT_FALSE(fence.Counts(slow));
  EXPECT_EQ(fence.SilentAfter(), At(1) + Padded(kTtl));
  fence.Failed(fence.Begin());
  EXPECT_EQ(fence.SilentAfter(), At(1020) + Padded(kTtl)) << "which later messages echo";
}

TEST(Fence, GiveUpRaisesOnlyWhenSomethingWasBegun) {
  Fence fence = MakeFence();
  fence.GiveUp();
  EXPECT_EQ(fence.epoch(), 1u);
  fence.Answered(fence.Begin(), 500, 1, At(5));
  fence.GiveUp();
  fence.GiveUp();
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_EQ(fence.SilentAfter(), At(5) + Padded(kTtl));
}

}  // namespace
}  // namespace peercache
