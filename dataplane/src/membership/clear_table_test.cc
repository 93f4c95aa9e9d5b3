#include "membership/clear_table.h"

#include <gtest/gtest.h>

#include <random>

namespace peercache {
namespace {

ClearState Of(std::vector<ClearEntry> entries, uint64_t floor = 0) {
  return {floor, std::move(entries)};
}

TEST(ClearTable, TellsWhatWasMissedOnce) {
  ClearTable table;
  EXPECT_EQ(table.digest(), 0u);
  const ClearState heard = Of({{7, 10}, {8, 11}});
  EXPECT_EQ(table.Missing(heard).tags, (std::vector<uint64_t>{7, 8}));
  table.Take(heard);
  EXPECT_TRUE(table.Missing(heard).empty());
  EXPECT_NE(table.digest(), 0u);
  EXPECT_TRUE(table.Missing(Of({{7, 9}})).empty()) << "the one of epoch 10 was after it";
  EXPECT_EQ(table.Missing(Of({{7, 12}, {8, 11}})).tags, (std::vector<uint64_t>{7}));
}

TEST(ClearTable, EpochsGrowWhateverTheClocksSay) {
  ClearTable table;
  constexpr uint64_t kHour = uint64_t{3600} * 1'000'000'000;
  const uint64_t now = uint64_t{1'790'000'000} * 1'000'000'000;
  const uint64_t fast = table.NextEpoch(now + kHour);
  table.Take(Of({{7, fast}}));
  // Of a clock that is right, a second later; of one that is a year slow; of none.
  for (const uint64_t wall : {now + 1'000'000'000, now - 8760 * kHour, uint64_t{0}}) {
    const uint64_t next = table.NextEpoch(wall);
    EXPECT_EQ(table.Missing(Of({{7, next}})).tags, (std::vector<uint64_t>{7})) << wall;
    table.Take(Of({{7, next}}));
  }
  // And of one that has lost its mind.
  for (int i = 0; i < 3; ++i) {
    const uint64_t next = table.NextEpoch(UINT64_MAX);
    EXPECT_FALSE(table.Missing(Of({{8, next}})).empty());
    table.Take(Of({{8, next}}));
  }
}

TEST(ClearTable, TablesThatTellEachOtherAllAreEqual) {
  std::mt19937_64 random(24);
  for (int round = 0; round < 50; ++round) {
    std::vector<ClearTable> tables(3);
    for (int i = 0; i < 1000; ++i) {
      ClearTable& table = tables[random() % tables.size()];
      const uint64_t tag = random() % (round % 2 == 0 ? 20 : 400);
      if (random() % 3 == 0) {
        table.Take(tables[random() % tables.size()].state());
      } else {
        table.Take(Of({{tag, table.NextEpoch(random() % 5000)}}));
      }
      ASSERT_LE(table.size(), kMostClears);
    }
    for (int pass = 0; pass < 2; ++pass)
      for (ClearTable& to : tables)
        for (const ClearTable& from : tables) to.Take(from.state());
    for (const ClearTable& table : tables) {
      EXPECT_EQ(table.state(), tables[0].state());
      EXPECT_EQ(table.digest(), tables[0].digest());
      EXPECT_TRUE(table.Missing(tables[0].state()).empty());
    }
  }
}

TEST(ClearTable, WhatIsForgottenCountsAsAClearOfEverything) {
  ClearTable table, away;
  for (uint64_t tag = 1; tag <= kMostClears; ++tag) table.Take(Of({{tag, tag}}));
  away.Take(table.state());
  EXPECT_EQ(table.floor(), 0u);
  table.Take(Of({{1000, 1000}}));
  EXPECT_EQ(table.size(), kMostClears);
  EXPECT_EQ(table.floor(), 1u) << "of the oldest, which was forgotten";
  EXPECT_EQ(table.EpochOf(1), 1u);
  EXPECT_GT(table.NextEpoch(0), 1000u);
  EXPECT_TRUE(away.Missing(table.state()).all);
  away.Take(table.state());
  EXPECT_EQ(away.state(), table.state());
  EXPECT_FALSE(away.Missing(table.state()).all);
  EXPECT_TRUE(ClearTable().Missing(table.state()).all) << "also a member that has just started";
}

TEST(ClearTable, EpochsOfNoClockAreNotPlausible) {
  constexpr uint64_t kToday = 1'800'000'000'000'000'000, kYear = 31'536'000'000'000'000;
  for (const uint64_t wall : {uint64_t{0}, kToday}) {
    EXPECT_TRUE(Plausible({}, wall));
    EXPECT_TRUE(Plausible({kToday, {{1, kToday + kYear}}}, wall)) << "a clock that is ahead";
    EXPECT_FALSE(Plausible({0, {{1, 5}, {2, kToday + 20 * kYear}}}, wall));
    EXPECT_FALSE(Plausible({kMaxClearEpoch, {}}, wall));
  }
  EXPECT_FALSE(Plausible({0, {{1, kMaxClearEpoch}}}, UINT64_MAX)) << "nobody is believed that";
  // What this node would say itself is believed.
  EXPECT_TRUE(Plausible({0, {{1, ClearTable().NextEpoch(UINT64_MAX)}}}, UINT64_MAX));
}

TEST(ClearTable, OfTwoThatHavePagesOnlyWhatBothHaveAppliedIsKnown) {
  const ClearState a{5, {{1, 10}, {2, 20}}}, b{7, {{1, 12}, {3, 30}}};
  // Tag 2 has the floor of b, and tag 3 that of a, which is the floor of both.
  EXPECT_EQ(KnownToBoth(a, b), (ClearState{5, {{1, 10}, {2, 7}}}));
  EXPECT_EQ(KnownToBoth(a, a), a);
  EXPECT_EQ(KnownToBoth(a, {}), ClearState{});
  // A table of what both know misses something of what either knows.
  ClearTable known;
  known.Take(KnownToBoth(a, b));
  EXPECT_FALSE(known.Missing(a).empty());
  EXPECT_FALSE(known.Missing(b).empty());
}

}  // namespace
}  // namespace peercache
