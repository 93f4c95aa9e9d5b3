// The paths that every read takes allocate nothing in this thread.
#include <gtest/gtest.h>

#include <vector>

#include "base/allocations_testing.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

class PoolAllocation : public ::testing::TestWithParam<EvictionPolicy> {};

TEST_P(PoolAllocation, NoneOnTheWayOfARead) {
  auto pool = MakePool(64 * kMiB, 64 * kMiB, GetParam());
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 1000; ++i) {
    keys.push_back(KeyOf(i));
    Put(*pool, i, 5000);
  }
  const uint64_t offset = pool->Find(keys[0]).offset();
  const uint64_t generation = pool->Find(keys[0]).header().generation;
  std::vector<PagePin> pins(keys.size()), at(keys.size());
  std::vector<uint8_t> there(keys.size());
  const std::vector<PageAt> places(keys.size(), {offset, generation, keys[0]});
  const uint64_t before = testing::allocations_here;
  ASSERT_GT(before, 0u) << "the counter works";
  pool->FindMany(keys, pins);
  PagePin by_key = pool->Find(keys[1]);
  PagePin miss = pool->Find(KeyOf(5000));
  PagePin by_record = pool->FindAt(offset, generation, keys[0]);
  const bool contained = pool->Contains(keys[2]);
  pool->FindManyAt(places, at);
  pool->ContainsMany(keys, there);
  pool->AddPublishedTo(places, 1);
  for (PagePin& pin : pins) pin.Release();
  by_key.Release();
  by_record.Release();
  EXPECT_EQ(testing::allocations_here, before);
  EXPECT_TRUE(contained);
  EXPECT_TRUE(at.back());
  EXPECT_EQ(there.back(), 1);
  EXPECT_FALSE(miss);
}

INSTANTIATE_TEST_SUITE_P(Policies, PoolAllocation,
                         ::testing::Values(EvictionPolicy::kLru, EvictionPolicy::kS3Fifo));

}  // namespace
}  // namespace peercache
