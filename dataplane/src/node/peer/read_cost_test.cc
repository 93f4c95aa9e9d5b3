// ReadCost: when reads of a place are worth their time, and when a slow one is tried again.
#include "node/peer/read_cost.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

using std::chrono::seconds;

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

constexpr milliseconds kLong{1000};

TEST(ReadCostTest, APlaceThatWasNeverReadFromPays) {
  ReadCost cost;
  EXPECT_TRUE(cost.Pays(1 << 30, 0, milliseconds(1)));
  EXPECT_EQ(cost.bytes_per_second(), 0u);
}

TEST(ReadCostTest, WhatTakesLongerThanItsWorthDoesNot) {
  ReadCost cost;
  cost.Took(100 * kMiB, 0, seconds(1));
  EXPECT_EQ(cost.bytes_per_second() / kMiB, 100u);
  EXPECT_TRUE(cost.Pays(99 * kMiB, 0, kLong));
  EXPECT_FALSE(cost.Pays(101 * kMiB, 0, kLong));
  EXPECT_FALSE(cost.Pays(50 * kMiB, 60 * kMiB, kLong)) << "it comes behind what is under way";
  EXPECT_TRUE(cost.Pays(kMiB, 0, milliseconds(1))) << "a wait of kNoWait is no wait";
}

TEST(ReadCostTest, OneFasterReadCountsAtOnceAndSlowerOnesByAndBy) {
  ReadCost cost;
  cost.Took(100 * kMiB, 0, seconds(1));
  cost.Took(100 * kMiB, 0, seconds(5));
  EXPECT_EQ(cost.bytes_per_second() / kMiB, 50u);
  for (int i = 0; i < 20; ++i) cost.Took(100 * kMiB, 0, seconds(5));
  EXPECT_EQ(cost.bytes_per_second() / kMiB, 20u);
  cost.Took(100 * kMiB, 0, milliseconds(100));
  EXPECT_EQ(cost.bytes_per_second() / kMiB, 1000u);
  cost.Took(100 * kMiB, 900 * kMiB, seconds(1));
  EXPECT_EQ(cost.bytes_per_second() / kMiB, 1000u) << "it shared the way with others";
}

TEST(ReadCostTest, SmallReadsMakeAPlaceFasterAndNeverSlower) {
  ReadCost cost;
  cost.Took(4096, 0, milliseconds(10));
  EXPECT_TRUE(cost.Pays(kGiB, 0, kLong)) << "the time of a message says nothing of bytes";
  cost.Took(kMiB, 0, kLong);
  EXPECT_FALSE(cost.Pays(2 * kMiB, 0, kLong));
  cost.Took(4096, 0, milliseconds(100));
  EXPECT_FALSE(cost.Pays(2 * kMiB, 0, kLong));
  cost.Took(4096, 0, std::chrono::microseconds(100));
  EXPECT_TRUE(cost.Pays(2 * kMiB, 0, kLong));
}

TEST(ReadCostTest, ALostReadCountsAtOnce) {
  ReadCost cost;
  for (int i = 0; i < 100; ++i) cost.Took(100 * kMiB, 0, milliseconds(10));
  cost.Lost(10 * kMiB, seconds(1), TimePoint{});
  EXPECT_FALSE(cost.Pays(10 * kMiB, 0, seconds(1)));
  cost.Lost(10 * kMiB, milliseconds(1), TimePoint{});
  EXPECT_FALSE(cost.Pays(10 * kMiB, 0, seconds(1)))
      << "that it was given up soon makes it no faster";
}

TEST(ReadCostTest, TrialsOfASlowPlaceBecomeRareUntilItPays) {
  ReadCost cost;
  TimePoint now{seconds(1000)};
  cost.Lost(kMiB, milliseconds(25), now);
  EXPECT_FALSE(cost.TrialDue(now));
  Duration pause{};
  for (int i = 0; i < 10; ++i) {
    const TimePoint before = now;
    while (!cost.TrialDue(now)) now += milliseconds(100);
    EXPECT_GE(now - before, pause);
    pause = now - before;
    EXPECT_TRUE(cost.TakeTrial(now));
    EXPECT_FALSE(cost.TakeTrial(now)) << "one caller makes it";
  }
  EXPECT_EQ(pause, ReadCost::kLongestPause);
  // It came in time, so the next get finds out, and until it has brought something the pauses stay.
  cost.Took(kMiB, 0, ReadCost::kLeastPatience);
  EXPECT_TRUE(cost.Pays(kGiB, 0, kLong));
  cost.Lost(kMiB, milliseconds(25), now);
  EXPECT_FALSE(cost.TrialDue(now + ReadCost::kFirstPause));
  now += ReadCost::kLongestPause;
  EXPECT_TRUE(cost.TakeTrial(now));
  cost.Took(kMiB, 0, milliseconds(1));
  cost.Took(100 * kMiB, 0, milliseconds(100));
  EXPECT_TRUE(cost.Pays(kMiB, 0, kLong));
  cost.Lost(kMiB, milliseconds(25), now);
  EXPECT_TRUE(cost.TrialDue(now + ReadCost::kFirstPause)) << "it was well in between";
}

TEST(ReadCostTest, WhoHasLostMuchTriesLessOften) {
  ReadCost cost;
  const TimePoint now{seconds(1000)};
  cost.Lost(kGiB, seconds(5), now);
  EXPECT_FALSE(cost.TrialDue(now + seconds(99)));
  EXPECT_TRUE(cost.TrialDue(now + seconds(100)));
}

TEST(ReadCostTest, OfASlowPlaceATrialIsAskedForAndPromised) {
  ReadCost cost;
  TimePoint now{seconds(1000)};
  EXPECT_FALSE(cost.slow());
  EXPECT_EQ(cost.ToAskFor(8, kGiB, 0, milliseconds(1), Purpose::kGet, now), 8u) << "not known yet";
  cost.Lost(kMiB, milliseconds(25), now);
  EXPECT_TRUE(cost.slow());
  for (const Purpose purpose : {Purpose::kExists, Purpose::kGet})
    EXPECT_EQ(cost.ToAskFor(8, kGiB, 0, kLong, purpose, now), 0u);
  now += ReadCost::kFirstPause;
  EXPECT_EQ(cost.ToAskFor(8, kGiB, 0, kLong, Purpose::kExists, now), 8u);
  EXPECT_EQ(cost.ToAskFor(8, kGiB, 0, kLong, Purpose::kGet, now), 1u);
  EXPECT_EQ(cost.ToAskFor(8, kGiB, 0, kLong, Purpose::kGet, now), 0u) << "one caller makes it";
  cost.Took(kMiB, 0, milliseconds(1));
  EXPECT_FALSE(cost.slow()) << "the next get finds out";
}

TEST(ReadCostTest, AnotherProcessAtThePlaceIsJudgedAnew) {
  ReadCost cost;
  cost.Lost(kMiB, kLong, TimePoint{});
  cost.Forget();
  EXPECT_TRUE(cost.Pays(kGiB, 0, kLong));
}

}  // namespace
}  // namespace peercache
