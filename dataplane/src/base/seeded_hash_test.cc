#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <set>

#include "base/chosen_keys_testing.h"

namespace peercache {
namespace {

using testing::ChosenKey;
using testing::kNoSeed;

constexpr size_t kKeys = 10'000;

TEST(SeededHashTest, KeysThatCollideWithoutASeedDoNotInThisProcess) {
  std::set<uint64_t> unseeded, low, high;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Key key = ChosenKey(4711, i);
    unseeded.insert(SeededHash(kNoSeed)(key));
    const uint64_t hash = SeededHash()(key);
    low.insert(hash % (1 << 20));
    high.insert(hash >> 44);
  }
  EXPECT_EQ(unseeded.size(), 1u);
  // As many as of numbers that are drawn: tables use the low bits or the high ones.
  EXPECT_GT(low.size(), kKeys * 98 / 100);
  EXPECT_GT(high.size(), kKeys * 98 / 100);
}

TEST(SeededHashTest, IsTheSameInAllTablesOfAProcessAndAnotherWithAnotherSeed) {
  const Key key = ChosenKey(1, 2);
  EXPECT_EQ(SeededHash()(key), SeededHash()(key));
  EXPECT_NE(SeededHash()(key), SeededHash(kNoSeed)(key));
  EXPECT_NE(SeededHash({1, 2, 3, 4})(key), SeededHash({1, 2, 3, 5})(key));
}

TEST(SeededHashTest, EachBitOfAKeyCounts) {
  const Key key = ChosenKey(1, 2);
  for (int bit = 0; bit < 256; ++bit) {
    Key other = key;
    other.bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    EXPECT_NE(SeededHash()(key), SeededHash()(other)) << bit;
  }
}

}  // namespace
}  // namespace peercache
