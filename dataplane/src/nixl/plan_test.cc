#include "nixl/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace peercache::nixl {
namespace {

// Reads an object of `page` by a plan, as a member would: its bytes in order into the iovs.
void Read(const Plan& plan, const std::vector<char>& page) {
  size_t at = 0;
  for (const pc_iov& iov : plan.iovs) {
    ASSERT_LE(at + iov.length, page.size());
    std::memcpy(reinterpret_cast<void*>(iov.address), page.data() + at, iov.length);
    at += iov.length;
  }
  ASSERT_EQ(at, page.size()) << "a page is read whole";
  plan.Copied();
}

std::vector<char> Page(size_t length) {
  std::vector<char> page(length);
  for (size_t i = 0; i < length; ++i) page[i] = static_cast<char>(i * 31 + i / 256);
  return page;
}

// Ranges of an object, each with memory of its own.
struct Wanted {
  explicit Wanted(const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
    for (const auto& [offset, length] : ranges) {
      memory.emplace_back(length, '\xee');
      all.push_back({offset, length, reinterpret_cast<uint64_t>(memory.back().data())});
    }
  }
  void ExpectRight(const std::vector<char>& page) const {
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(std::equal(memory[i].begin(), memory[i].end(), page.begin() + all[i].offset))
          << "range " << i;
    }
  }
  std::vector<std::vector<char>> memory;
  std::vector<Range> all;
};

TEST(Plan, ReadsWhatTilesTheObjectStraight) {
  const auto page = Page(100);
  const Wanted wanted({{60, 40}, {0, 10}, {10, 50}});
  const auto plan = PlanRead(100, wanted.all);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->iovs.size(), 3u);
  EXPECT_TRUE(plan->copies.empty());
  EXPECT_EQ(plan->scratch, nullptr);
  Read(*plan, page);
  wanted.ExpectRight(page);
}

TEST(Plan, ReadsOverlappingRangesOnce) {
  const auto page = Page(100);
  const Wanted wanted({{0, 100}, {0, 100}, {20, 30}, {49, 51}});
  const auto plan = PlanRead(100, wanted.all);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->iovs.size(), 1u) << "the others are copied from the first";
  EXPECT_EQ(plan->scratch, nullptr);
  Read(*plan, page);
  wanted.ExpectRight(page);
}

TEST(Plan, ReadsAPartOfAnObjectWhoseLengthItKnows) {
  const auto page = Page(100);
  const Wanted wanted({{10, 5}, {90, 5}});
  const auto plan = PlanRead(100, wanted.all);
  ASSERT_TRUE(plan);
  EXPECT_NE(plan->scratch, nullptr);
  Read(*plan, page);
  wanted.ExpectRight(page);
  EXPECT_FALSE(PlanRead(0, wanted.all)) << "nobody knows where it ends";
  EXPECT_TRUE(PlanRead(0, Wanted({{0, 5}, {5, 5}}).all));
}

TEST(Plan, ReadsMoreRangesThanAPageHasThroughScratchMemory) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (uint64_t i = 0; i <= PC_MAX_IOVS; ++i) ranges.emplace_back(2 * i, 1);
  const auto page = Page(2 * ranges.size());
  const Wanted wanted(ranges);
  const auto plan = PlanRead(page.size(), wanted.all);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->iovs.size(), 1u);
  Read(*plan, page);
  wanted.ExpectRight(page);
}

TEST(Plan, ReadsAnyRanges) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const size_t length = 1 + random() % 300;
    const auto page = Page(length);
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (size_t i = 0; i < 1 + random() % 8; ++i) {
      const uint64_t offset = random() % length;
      ranges.emplace_back(offset, 1 + random() % (length - offset));
    }
    const Wanted wanted(ranges);
    const auto plan = PlanRead(length, wanted.all);
    ASSERT_TRUE(plan);
    Read(*plan, page);
    wanted.ExpectRight(page);
  }
}

TEST(Plan, RefusesRangesThatAreNotOfTheObject) {
  EXPECT_FALSE(PlanRead(100, {}));
  EXPECT_FALSE(PlanRead(100, {{0, 0, 1}}));
  EXPECT_FALSE(PlanRead(100, {{50, 51, 1}}));
  EXPECT_FALSE(PlanRead(100, {{UINT64_MAX, 2, 1}}));
}

TEST(Plan, WritesAnObjectWholeOrNotAtAll) {
  const auto plan = PlanWrite(100, {{50, 50, 2000}, {0, 50, 1000}});
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->iovs.size(), 2u);
  EXPECT_EQ(plan->iovs[0].address, 1000u) << "in the order of the object";
  EXPECT_TRUE(PlanWrite(0, {{0, 50, 1000}}));
  EXPECT_FALSE(PlanWrite(100, {{0, 50, 1000}})) << "a part";
  EXPECT_FALSE(PlanWrite(0, {{1, 50, 1000}})) << "without its beginning";
  EXPECT_FALSE(PlanWrite(100, {{0, 60, 1000}, {50, 50, 2000}})) << "some bytes twice";
  EXPECT_FALSE(PlanWrite(100, {{0, 40, 1000}, {50, 50, 2000}})) << "a gap";
  std::vector<Range> many;
  for (uint64_t i = 0; i <= PC_MAX_IOVS; ++i) many.push_back({i, 1, 1000});
  EXPECT_FALSE(PlanWrite(0, many));
}

}  // namespace
}  // namespace peercache::nixl
