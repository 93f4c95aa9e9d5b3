#include "transport/rdma/weak_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace peercache::rdma {
namespace {

using std::chrono::seconds;

size_t compared = 0;

struct Number {
  uint32_t value = 0;
  bool operator==(const Number& other) const {
    ++compared;
    return value == other.value;
  }
};
struct HashOfNumber {
  size_t operator()(const Number& number) const { return number.value; }
};
using Map = WeakMap<Number, uint32_t, HashOfNumber>;

constexpr TimePoint kStart{seconds(1000)};

TEST(WeakMapTest, FindingOneOfThousandsLooksAtFew) {
  constexpr uint32_t kCount = 16'384;
  Map map;
  std::vector<std::shared_ptr<uint32_t>> held;
  for (uint32_t i = 0; i < kCount; ++i) {
    held.push_back(std::make_shared<uint32_t>(i));
    map.Put({i}, held.back());
  }
  compared = 0;
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(map.Find({i}, kStart), held[i]);
  EXPECT_EQ(map.Find({kCount}, kStart), nullptr);
  EXPECT_LE(compared, 2 * kCount);
}

TEST(WeakMapTest, WhatNobodyHoldsIsNotFoundAndIsSweptOutOnceASecond) {
  Map map;
  auto first = std::make_shared<uint32_t>(1), second = std::make_shared<uint32_t>(2);
  map.Put({1}, first);
  map.Put({2}, second);
  EXPECT_EQ(map.Find({1}, kStart), first);
  first.reset();
  EXPECT_EQ(map.Find({1}, kStart + milliseconds(999)), nullptr);
  EXPECT_EQ(map.size(), 2u) << "no sweep for each ask";
  EXPECT_EQ(map.Find({2}, kStart + seconds(1)), second);
  EXPECT_EQ(map.size(), 1u);
}

TEST(WeakMapTest, ALaterValueTakesThePlaceOfOneThatIsGone) {
  Map map;
  map.Put({1}, std::make_shared<uint32_t>(1));
  const auto again = std::make_shared<uint32_t>(2);
  map.Put({1}, again);
  EXPECT_EQ(map.Find({1}, kStart), again);
  EXPECT_EQ(map.size(), 1u);
}

}  // namespace
}  // namespace peercache::rdma
