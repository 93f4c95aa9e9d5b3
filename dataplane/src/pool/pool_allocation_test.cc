// The paths that every read takes allocate nothing. Counts the allocations of this thread by
// replacing operator new for the whole test program.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "pool/pool_testing.h"

namespace {
thread_local uint64_t allocations = 0;
}  // namespace

// Not inlined: the compiler would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

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
  const uint64_t before = allocations;
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
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(contained);
  EXPECT_TRUE(at.back());
  EXPECT_EQ(there.back(), 1);
  EXPECT_FALSE(miss);
}

INSTANTIATE_TEST_SUITE_P(Policies, PoolAllocation,
                         ::testing::Values(EvictionPolicy::kLru, EvictionPolicy::kS3Fifo));

}  // namespace
}  // namespace peercache
