#include "pool/heat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pool/pool_testing.h"

namespace peercache {
namespace {

using ::testing::ElementsAre;

TEST(HeatTest, HalvesWithEveryEpoch) {
  constexpr uint64_t kPages = 100, kEpoch = 256;
  EXPECT_EQ(HeatNow(8, 10, 20, kPages), 8);
  EXPECT_EQ(HeatNow(8, 10, kEpoch - 1, kPages), 8);
  EXPECT_EQ(HeatNow(8, 10, kEpoch, kPages), 4);
  EXPECT_EQ(HeatNow(8, 10, 3 * kEpoch, kPages), 1);
  EXPECT_EQ(HeatNow(15, 0, UINT64_MAX, kPages), 0);
  EXPECT_EQ(HeatNow(15, 0, 2, 0), 7) << "an empty pool has the shortest epoch";
}

// What the pool counts, by page.
class PoolHeatTest : public ::testing::Test {
 protected:
  uint8_t HeatOf(uint8_t n) {
    uint8_t heat = 0;
    pool_->ForEachReady([&](const PageInfo& page) {
      if (page.key == KeyOf(n)) heat = page.heat;
    });
    return heat;
  }
  void Read(uint8_t n, int times) {
    for (int i = 0; i < times; ++i) EXPECT_TRUE(pool_->Find(KeyOf(n)));
  }
  std::unique_ptr<Pool> pool_ = MakePool(8 * kMiB);
};

TEST_F(PoolHeatTest, CountsReadsAndForgetsThem) {
  for (uint8_t n = 0; n < 16; ++n) Put(*pool_, n, 4 * kKiB);
  EXPECT_EQ(HeatOf(3), 0) << "to be set is not to be read";
  Read(3, 2);
  EXPECT_EQ(HeatOf(3), 2);
  EXPECT_EQ(HeatOf(4), 0);
  Read(3, 10);
  const uint8_t hot = HeatOf(3);
  EXPECT_GE(hot, 6);
  Read(4, 400);
  EXPECT_EQ(HeatOf(4), kMostHeat);
  EXPECT_EQ(HeatOf(3), 0);
}

TEST_F(PoolHeatTest, APageThatComesFromElsewhereBringsItsHeat) {
  Put(*pool_, 1, 4 * kKiB);
  pool_->Warm(pool_->Find(KeyOf(1)), 9);
  EXPECT_EQ(HeatOf(1), 9);
  pool_->Warm(pool_->Find(KeyOf(1)), 200);
  EXPECT_EQ(HeatOf(1), kMostHeat);
}

TEST_F(PoolHeatTest, KnowsWhatThePagesThatGoNextAreWorth) {
  EXPECT_THAT(pool_->HeatToReplaceNext(4 * kKiB, 3), ElementsAre()) << "nothing would go";
  Put(*pool_, 1, 4 * kKiB);
  Put(*pool_, 2, 4 * kKiB);
  EXPECT_THAT(pool_->HeatToReplaceNext(4 * kKiB, 3), ElementsAre(1, 1));
  Read(1, 3);
  Read(2, 2);
  EXPECT_THAT(pool_->HeatToReplaceNext(4 * kKiB, 3), ElementsAre(4, 3)) << "page 1 is the next";
  EXPECT_THAT(pool_->HeatToReplaceNext(4 * kKiB, 1), ElementsAre(4));
  EXPECT_THAT(pool_->HeatToReplaceNext(4 * kKiB, 0), ElementsAre());
  EXPECT_THAT(pool_->HeatToReplaceNext(0, 3), ElementsAre());
  EXPECT_THAT(pool_->HeatToReplaceNext(SIZE_MAX, 3), ElementsAre());
}

TEST_F(PoolHeatTest, ReplicasGoFirstAndWhatIsPinnedStays) {
  pool_->Warm(Put(*pool_, 1, 4 * kKiB), 3);
  pool_->Warm(Put(*pool_, 2, 4 * kKiB), 2);
  Put(*pool_, 3, 4 * kKiB, 0, PageKind::kReplica);
  Read(3, 1);
  EXPECT_THAT(pool_->HeatToReplaceNext(4 * kKiB, 2), ElementsAre(0, 4));
  const PagePin pin = pool_->Find(KeyOf(1));
  EXPECT_THAT(pool_->HeatToReplaceNext(4 * kKiB, 9), ElementsAre(0, 3));
}

}  // namespace
}  // namespace peercache
