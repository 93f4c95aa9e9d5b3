#include "directory/fence.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

constexpr Duration kTtl = milliseconds(3000);
constexpr Duration kLease = milliseconds(1000);

TimePoint At(int64_t ms) { return TimePoint(milliseconds(ms)); }

TEST(Fence, StampsCarryEpochEchoAndFreshNumbers) {
  Fence fence(7, 3, kTtl);
  const OwnerStamp first = fence.Begin(At(0));
  EXPECT_EQ(first.node, 7u);
  EXPECT_EQ(first.incarnation, 3u);
  EXPECT_EQ(first.epoch, 1u);
  EXPECT_EQ(first.echo, 0);
  EXPECT_FALSE(fence.Answered(first, 500, 1, At(1)));
  const OwnerStamp second = fence.Begin(At(2));
  EXPECT_EQ(second.echo, 500);
  EXPECT_GT(second.sequence, first.sequence);
}

TEST(Fence, KeepsTheNewestEchoWhenAnswersOvertake) {
  Fence fence(7, 3, kTtl);
  const OwnerStamp a = fence.Begin(At(0)), b = fence.Begin(At(1));
  fence.Answered(b, 600, 1, At(2));
  fence.Answered(a, 500, 1, At(3));
  EXPECT_EQ(fence.Begin(At(4)).echo, 600);
}

TEST(Fence, FailureRaisesTheEpochOnceForAllMessagesBegunBefore) {
  Fence fence(7, 3, kTtl);
  const OwnerStamp a = fence.Begin(At(0)), b = fence.Begin(At(10)), c = fence.Begin(At(20));
  fence.Failed(a, At(1000));
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_FALSE(fence.Counts(b));
  const OwnerStamp d = fence.Begin(At(1005));
  fence.Failed(b, At(1010));
  fence.Failed(c, At(1020));
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_TRUE(fence.Counts(d));
}

TEST(Fence, SilenceCountsFromTheLastBeginOfTheFormerEpochNotFromTheFailedMessage) {
  Fence fence(7, 3, kTtl);
  const OwnerStamp a = fence.Begin(At(0));
  fence.Begin(At(900));
  fence.Failed(a, At(1000));
  EXPECT_EQ(fence.SilentAfter(), At(900) + Padded(kTtl));
  EXPECT_EQ(fence.ReuseAfter(At(1000), kLease), At(900) + Padded(kTtl) + Padded(kLease));
}

TEST(Fence, SilenceCoversEveryFormerEpochButNotThePresentOne) {
  Fence fence(7, 3, kTtl);
  const OwnerStamp a = fence.Begin(At(0));
  fence.Failed(a, At(1000));
  fence.Begin(At(2000));
  EXPECT_EQ(fence.SilentAfter(), At(0) + Padded(kTtl));
  const OwnerStamp b = fence.Begin(At(1500));  // the clock of another thread may lag
  fence.Failed(b, At(2500));
  EXPECT_EQ(fence.SilentAfter(), At(2000) + Padded(kTtl));
  EXPECT_EQ(fence.epoch(), 3u);
}

TEST(Fence, AnAnsweredWithdrawalWaitsForTheLeaseOnly) {
  Fence fence(7, 3, kTtl);
  fence.Answered(fence.Begin(At(0)), 500, 1, At(1));
  EXPECT_EQ(fence.ReuseAfter(At(50), kLease), At(50) + Padded(kLease));
}

TEST(Fence, RestartOfTheShardRaisesTheEpochAndFencesTheFormerInstance) {
  Fence fence(7, 3, kTtl);
  EXPECT_FALSE(fence.Answered(fence.Begin(At(0)), 500, 1, At(1)));
  const OwnerStamp a = fence.Begin(At(10)), b = fence.Begin(At(20));
  EXPECT_TRUE(fence.Answered(a, 42, 2, At(30)));
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_EQ(fence.SilentAfter(), At(20) + Padded(kTtl));
  EXPECT_EQ(fence.Begin(At(31)).echo, 42);
  // A second answer of before tells nothing new.
  EXPECT_FALSE(fence.Answered(b, 43, 2, At(32)));
  EXPECT_EQ(fence.epoch(), 2u);
}

TEST(Fence, LateAnswerOfTheFormerInstanceDoesNotBringItsEchoBack) {
  Fence fence(7, 3, kTtl);
  fence.Answered(fence.Begin(At(0)), 500, 1, At(1));
  const OwnerStamp late = fence.Begin(At(10)), a = fence.Begin(At(20));
  fence.Answered(a, 42, 2, At(30));
  EXPECT_FALSE(fence.Answered(late, 900, 1, At(31)));
  EXPECT_EQ(fence.Begin(At(32)).echo, 42);
}

TEST(Fence, AnswerOfAFormerEpochRefreshesTheEchoAndNothingElse) {
  Fence fence(7, 3, kTtl);
  fence.Answered(fence.Begin(At(0)), 500, 1, At(1));
  const OwnerStamp slow = fence.Begin(At(10)), lost = fence.Begin(At(11));
  fence.Failed(lost, At(1011));
  EXPECT_FALSE(fence.Answered(slow, 700, 1, At(1020)));
  EXPECT_FALSE(fence.Counts(slow));
  EXPECT_EQ(fence.Begin(At(1021)).echo, 700);
}

TEST(Fence, GiveUpRaisesOnlyWhenSomethingWasBegun) {
  Fence fence(7, 3, kTtl);
  fence.GiveUp();
  EXPECT_EQ(fence.epoch(), 1u);
  fence.Begin(At(5));
  fence.GiveUp();
  fence.GiveUp();
  EXPECT_EQ(fence.epoch(), 2u);
  EXPECT_EQ(fence.SilentAfter(), At(5) + Padded(kTtl));
}

}  // namespace
}  // namespace peercache
