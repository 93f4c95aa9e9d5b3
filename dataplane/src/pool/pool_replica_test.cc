// Replicas in the pool: first to go, and pages like any other once they are set here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "pool/pool.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

class ReplicaTest : public ::testing::TestWithParam<EvictionPolicy> {
 protected:
  static constexpr size_t kPage = 60 * kKiB;
  // Pages 1 to 4, of which 3 and 4 are replicas, and newer.
  ReplicaTest() : pool_(MakePool(16 * kMiB, kMiB, GetParam())) {
    for (uint64_t n = 1; n <= 4; ++n)
      Put(*pool_, n, kPage, 7, n < 3 ? PageKind::kOwn : PageKind::kReplica).Release();
  }
  std::vector<Key> Gone(size_t pages) {
    std::vector<Key> keys;
    for (const Victim& victim : pool_->TakeVictims(pages * kPage, kPage))
      keys.push_back(victim.key);
    return keys;
  }
  const std::unique_ptr<Pool> pool_;
};

TEST_P(ReplicaTest, GoBeforeAllOtherPagesTheLeastUsedFirst) {
  EXPECT_EQ(pool_->stats().replicas, 2u);
  EXPECT_TRUE(pool_->Find(KeyOf(3)).replica());
  EXPECT_FALSE(pool_->Find(KeyOf(1)).replica());
  EXPECT_EQ(Gone(2), (std::vector<Key>{KeyOf(4), KeyOf(3)}));
  EXPECT_EQ(pool_->stats().replica_bytes, 0u);
  EXPECT_EQ(pool_->stats().evictions_replica, 2u);
  EXPECT_EQ(Gone(2).size(), 2u);
  EXPECT_EQ(pool_->stats().evictions, 2u);
}

TEST_P(ReplicaTest, PinnedOnesStayAndOthersGoInstead) {
  const PagePin pins[] = {pool_->Find(KeyOf(3)), pool_->Find(KeyOf(4))};
  EXPECT_EQ(Gone(1).size(), 1u);
  EXPECT_EQ(pool_->stats().replicas, 2u);
  EXPECT_TRUE(pool_->TakeReplicas(SIZE_MAX).empty());
}

TEST_P(ReplicaTest, OfAllSizesTheOldestAreTaken) {
  Put(*pool_, 5, 4 * kKiB, 7, PageKind::kReplica).Release();
  pool_->Find(KeyOf(3)).Release();
  std::vector<Key> keys;
  for (const Victim& victim : pool_->TakeReplicas(SIZE_MAX)) keys.push_back(victim.key);
  EXPECT_EQ(keys, (std::vector<Key>{KeyOf(4), KeyOf(5), KeyOf(3)}));
  EXPECT_TRUE(pool_->Contains(KeyOf(1)));
}

TEST_P(ReplicaTest, WhatIsSetHereAsWellIsAPageLikeAnyOther) {
  PagePin pin = pool_->Find(KeyOf(3));
  pool_->Adopt(&pin, 9);
  EXPECT_FALSE(pin.replica());
  EXPECT_EQ(pin.header().tag, 9u);
  pin.Release();
  auto reservation = pool_->Reserve(kPage);
  bool duplicate = false;
  pin = pool_->Commit(std::move(reservation).value(), KeyOf(4), 9, 0, &duplicate);
  EXPECT_TRUE(duplicate);
  EXPECT_FALSE(pin.replica());
  pin.Release();
  EXPECT_EQ(pool_->stats().replicas, 0u);
  EXPECT_EQ(pool_->stats().replica_bytes, 0u);
  EXPECT_TRUE(pool_->TakeReplicas(SIZE_MAX).empty());
  size_t busy = 0;
  EXPECT_EQ(pool_->TakeTagged(9, &busy).size(), 2u);
  // The other way round, a page of one's own stays one.
  PagePin own = Put(*pool_, 1, kPage, 0, PageKind::kReplica);
  EXPECT_FALSE(own.replica());
}

TEST_P(ReplicaTest, AreClearedWithAnyTag) {
  size_t busy = 0;
  EXPECT_EQ(pool_->TakeTagged(12345, &busy).size(), 2u);
  EXPECT_FALSE(pool_->Contains(KeyOf(3)));
  EXPECT_TRUE(pool_->Contains(KeyOf(1)));
}

INSTANTIATE_TEST_SUITE_P(Policies, ReplicaTest,
                         ::testing::Values(EvictionPolicy::kLru, EvictionPolicy::kS3Fifo));

}  // namespace
}  // namespace peercache
