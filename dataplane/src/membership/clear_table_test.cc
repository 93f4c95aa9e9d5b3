#include "membership/clear_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace peercache {
namespace {

ClearState Of(std::vector<ClearEntry> entries) { return {{}, std::move(entries)}; }
const std::vector<uint64_t> kFirst{0};  // the group of low tags
// Clears tags from `first` to `last`, each at an epoch as high as its number.
void Clear(ClearTable* table, uint64_t first, uint64_t last) {
  for (uint64_t tag = first; tag <= last; ++tag) table->Take(Of({{tag, tag}}));
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
      const uint64_t number = random() % (round % 2 == 0 ? 20 : 2 * kMostClears);
      const uint64_t tag = TagIn(random() % (1 + round % 4), number);
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

TEST(ClearTable, WhatIsForgottenCountsAsAClearOfItsGroup) {
  ClearTable table;
  Clear(&table, 1, kMostClears);
  EXPECT_TRUE(table.forgotten().empty());
  table.Take(Of({{1000, 1000}}));
  EXPECT_EQ(table.size(), kMostClears);
  EXPECT_EQ(table.Forgotten(0).epoch, 1u) << "of the oldest, which was forgotten";
  EXPECT_NE(table.Forgotten(0).digest, 0u);
  EXPECT_EQ(table.EpochOf(1), 1u);
  EXPECT_GT(table.NextEpoch(0), 1000u);
  EXPECT_EQ(ClearTable().Missing(table.state()).groups, kFirst) << "for one that has just started";
  ClearState unsaid = table.state();
  unsaid.forgotten[0].digest = 0;
  EXPECT_EQ(ClearTable().Missing(unsaid).groups, kFirst) << "also of one that does not know what";
}

TEST(ClearTable, WhatWasAppliedAndForgottenIsNoNews) {
  ClearTable table, other, heard;
  for (ClearTable* each : {&table, &other, &heard}) Clear(each, 1, kMostClears);
  for (uint64_t tag = 2000; tag < 2000 + 2 * kMostClears; ++tag) {
    // As a node does: it hears, applies what it lacks, and knows it then.
    heard.Take(Of({{tag, tag}}));
    EXPECT_EQ(heard.size(), kMostClears);
    const ClearTable::News news = table.Missing(heard.state());
    EXPECT_TRUE(news.groups.empty()) << tag;
    EXPECT_EQ(news.tags, std::vector<uint64_t>{tag});
    table.Take(heard.state());
    EXPECT_TRUE(table.Missing(heard.state()).empty());
    // As one that hears the whole table, now and then, from one that is ahead.
    if (tag % 7 != 0) continue;
    EXPECT_TRUE(other.Missing(table.state()).groups.empty()) << tag;
    EXPECT_TRUE(table.Missing(other.state()).empty()) << "one that is behind says nothing new";
    other.Take(table.state());
    EXPECT_EQ(other.state(), table.state());
  }
  other.Take(table.state());
  // Those that are cleared again and again, too.
  for (uint64_t epoch = 9000; epoch < 9000 + 3 * kMostClears; ++epoch) {
    const ClearState next = Of({{epoch % (kMostClears + 1), epoch}});
    EXPECT_TRUE(table.Missing(next).groups.empty());
    table.Take(next);
    EXPECT_TRUE(other.Missing(table.state()).groups.empty()) << epoch;
    other.Take(next);
    EXPECT_EQ(other.state(), table.state());
  }
}

TEST(ClearTable, AMemberThatLacksALowerForgottenClearDropsTheGroup) {
  ClearTable table;
  Clear(&table, 1, kMostClears + 5);
  for (const uint64_t known : {uint64_t{1}, kMostClears, kMostClears + 2, kMostClears + 5}) {
    for (const uint64_t lacked : {uint64_t{1}, uint64_t{3}, uint64_t{5}}) {
      if (lacked > known) continue;
      ClearTable away;
      Clear(&away, 1, lacked - 1);
      Clear(&away, lacked + 1, known);
      EXPECT_EQ(away.Missing(table.state()).groups, kFirst)
          << "knows those up to " << known << " but " << lacked;
      away.Take(table.state());
      EXPECT_TRUE(away.Missing(table.state()).empty());
    }
  }
  // It was away while more tags were cleared than anybody remembers.
  ClearTable away, back;
  for (ClearTable* each : {&away, &back}) Clear(each, 1, 5);
  Clear(&table, kMostClears + 6, 2 * kMostClears);
  EXPECT_EQ(away.Missing(table.state()).groups, kFirst);
  EXPECT_TRUE(table.Missing(away.state()).groups.empty())
      << "and the others need not drop anything";
  Clear(&back, 6, kMostClears + 5);
  EXPECT_TRUE(back.Missing(table.state()).groups.empty()) << "fewer";
}

// A tag is cleared again when it is the oldest, and another one at the same time: some members
// forget the one before, some replace it.
TEST(ClearTable, TwoClearsAtOnceThatComeInAnotherOrderAreNoNews) {
  const uint64_t first = 3 * kMostClears;
  for (const uint64_t again : {uint64_t{1}, uint64_t{2}}) {
    std::vector<ClearTable> tables(2);
    for (ClearTable& table : tables) Clear(&table, 1, kMostClears);
    const ClearState one = Of({{again, first}}), two = Of({{5000, first + 1}}),
                     three = Of({{5001, first + 2}});
    for (const ClearState& clear : {one, two, three}) tables[0].Take(clear);
    for (const ClearState& clear : {three, two, one}) tables[1].Take(clear);
    EXPECT_NE(tables[0].Forgotten(0), tables[1].Forgotten(0));
    const std::vector<ClearState> states{tables[0].state(), tables[1].state()};
    for (size_t i : {0, 1}) {
      EXPECT_TRUE(tables[i].Missing(states[1 - i]).empty());
      tables[i].Take(states[1 - i]);
    }
    EXPECT_EQ(tables[0].state(), tables[1].state());
    EXPECT_EQ(tables[0].digest(), tables[1].digest());
  }
}

// A tenant that clears one tag after another, each a group of its own.
TEST(ClearTable, WhoClearsManyTagsCostsNoOtherGroup) {
  constexpr uint64_t kVictim = 3, kAttacker = 5;
  const auto victims = [](ClearTable* table) {
    for (uint64_t i = 1; i <= 20; ++i) table->Take(Of({{TagIn(kVictim, i), i}}));
  };
  ClearTable table, away;
  victims(&table);
  victims(&away);
  for (uint64_t i = 0; i < 3 * kMostClears; ++i) table.Take(Of({{TagIn(kAttacker, i), 100 + i}}));
  EXPECT_EQ(table.size(), kMostClears);
  EXPECT_EQ(away.Missing(table.state()).groups, std::vector<uint64_t>{kAttacker});
  EXPECT_EQ(table.Forgotten(kVictim).epoch, 0u);
  for (uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(table.EpochOf(TagIn(kVictim, i)), i);
  // What the member has missed of its own tenant it is told as before.
  table.Take(Of({{TagIn(kVictim, 7), 9999}}));
  const ClearTable::News news = away.Missing(table.state());
  EXPECT_EQ(news.groups, std::vector<uint64_t>{kAttacker});
  EXPECT_EQ(std::ranges::count(news.tags, TagIn(kVictim, 7)), 1);
  away.Take(table.state());
  EXPECT_EQ(away.state(), table.state());
}

TEST(ClearTable, OfTwoThatHaveForgottenOtherClearsOfOneGroupTheOthersAreKnown) {
  std::vector<ClearTable> tables(2);
  for (uint64_t i = 0; i < 2; ++i) {
    tables[i].Take(Of({{TagIn(3, 1), 10}, {TagIn(3, 2), 11 + i}}));
    Clear(&tables[i], 1 + i, kMostClears + 5);
  }
  for (const size_t i : {0, 1}) {
    ClearTable known;
    known.Take(KnownToBoth(tables[i].state(), tables[1 - i].state()));
    EXPECT_EQ(known.state(), Of({{TagIn(3, 1), 10}, {TagIn(3, 2), 11}}));
    EXPECT_EQ(known.Missing(tables[0].state()).groups, kFirst);
  }
}

TEST(ClearTable, EpochsOfNoClockAreNotPlausible) {
  constexpr uint64_t kToday = 1'800'000'000'000'000'000, kYear = 31'536'000'000'000'000;
  for (const uint64_t wall : {uint64_t{0}, kToday}) {
    EXPECT_TRUE(Plausible({}, wall));
    EXPECT_TRUE(Plausible({{{0, kToday, 1}}, {{1, kToday + kYear}}}, wall))
        << "a clock that is ahead";
    EXPECT_FALSE(Plausible(Of({{1, 5}, {2, kToday + 20 * kYear}}), wall));
    EXPECT_FALSE(Plausible({{{0, kMaxClearEpoch, 1}}, {}}, wall));
  }
  EXPECT_FALSE(Plausible(Of({{1, kMaxClearEpoch}}), UINT64_MAX)) << "nobody is believed that";
  // What this node would say itself is believed.
  EXPECT_TRUE(Plausible(Of({{1, ClearTable().NextEpoch(UINT64_MAX)}}), UINT64_MAX));
}

TEST(ClearTable, OfTwoThatHavePagesOnlyWhatBothHaveAppliedIsKnown) {
  const ClearState a{{{0, 5, 0}}, {{1, 10}, {2, 20}}}, b{{{0, 7, 0}}, {{1, 12}, {3, 30}}};
  // Tag 2 has the floor of b, and tag 3 that of a, which is the floor of both.
  EXPECT_EQ(KnownToBoth(a, b), (ClearState{{{0, 5, 0}}, {{1, 10}, {2, 7}}}));
  EXPECT_EQ(KnownToBoth(a, a), a);
  EXPECT_EQ(KnownToBoth(a, {}), ClearState{});
  // A table of what both know misses something of what either knows.
  ClearTable known;
  known.Take(KnownToBoth(a, b));
  EXPECT_FALSE(known.Missing(a).empty());
  EXPECT_FALSE(known.Missing(b).empty());
}

TEST(ClearTable, OfTwoThatHaveForgottenOtherClearsNothingIsKnown) {
  ClearTable ahead, behind, lacks;
  Clear(&ahead, 1, kMostClears + 9);
  Clear(&behind, 1, kMostClears + 3);
  Clear(&lacks, 2, kMostClears + 3);
  for (const bool turn : {false, true}) {
    const auto both = [turn](const ClearTable& a, const ClearTable& b) {
      ClearTable known;
      known.Take(turn ? KnownToBoth(a.state(), b.state()) : KnownToBoth(b.state(), a.state()));
      return known.state();
    };
    EXPECT_EQ(both(ahead, behind), behind.state());
    EXPECT_EQ(both(ahead, lacks), ClearState{});
    EXPECT_EQ(both(behind, lacks), ClearState{});
  }
}

}  // namespace
}  // namespace peercache
