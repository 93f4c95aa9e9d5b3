#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/chosen_keys_testing.h"

namespace peercache {
namespace {

using testing::ChosenKey;
using testing::kNoSeed;

constexpr size_t kKeys = 2'000;
constexpr uint64_t kBuckets = 1 << 16;

TEST(SeededHashTest, KeysThatCollideWithoutASeedDoNotWithAny) {
  std::set<uint64_t> unseeded;
  for (uint64_t i = 0; i < kKeys; ++i) unseeded.insert(SeededHash(kNoSeed)(ChosenKey(4711, i)));
  EXPECT_EQ(unseeded.size(), 1u);

  std::mt19937_64 random(1);
  for (int process = 0; process < 300; ++process) {
    const SeededHash hash({random(), random(), random(), random()});
    std::set<uint64_t> low, high;
    for (uint64_t i = 0; i < kKeys; ++i) {
      low.insert(hash(ChosenKey(4711, i)) % kBuckets);
      high.insert(hash(ChosenKey(4711, i)) / (UINT64_MAX / kBuckets + 1));
    }
    // As many as of numbers that are drawn: tables use the low bits or the high ones.
    ASSERT_GT(low.size(), kKeys * 95 / 100) << "process " << process;
    ASSERT_GT(high.size(), kKeys * 95 / 100) << "process " << process;
  }
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
