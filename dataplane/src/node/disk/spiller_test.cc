// Spiller, with a real drive: pages that the pool has from the process before.
#include "node/disk/spiller.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/allocations_testing.h"
#include "base/patience_testing.h"
#include "base/temp_dir_testing.h"
#include "disk/disk_testing.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

using testing::Eventually;

class SpillerTest : public ::testing::Test {
 protected:
  SpillerTest() {
    disk::DiskOptions options;
    options.paths = {folder_.path()};
    options.bytes = uint64_t{520} << 20;
    options.cluster = "test";
    options.device.breaker.slow = testing::kEndsAHang;  // of whatever drive the tests are on
    options.mean_page_bytes = 4 * kKiB;
    auto tier = disk::DiskTier::Open(options, nullptr);
    EXPECT_TRUE(tier.ok()) << tier.status().ToString();
    tier_ = std::move(*tier);
    auto pool = Pool::Create(
        {.bytes = 32 * kMiB, .huge_pages = HugePages::kOff, .generations = tier_->sequence()});
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(*pool);
  }
  disk::DiskPage OnDisk(uint64_t number) const {
    const Key key = KeyOf(number);
    disk::DiskPage page;
    tier_->Find({&key, 1}, {&page, 1});
    return page;
  }

  testing::TempDir folder_{"/var/tmp"};
  std::unique_ptr<disk::DiskTier> tier_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(SpillerTest, PagesOfBeforeAreLookedForAsTheyAreWritten) {
  // Of two sizes, and so in several runs of chunks.
  constexpr uint64_t kPages = 2000;
  for (uint64_t i = 0; i < kPages; ++i)
    ASSERT_TRUE(Put(*pool_, i, i % 2 == 0 ? 4 * kKiB : 8 * kKiB));
  ASSERT_TRUE(Put(*pool_, kPages, 4 * kKiB, 0, PageKind::kReplica));
  Spiller spiller(tier_.get(), pool_.get());
  const uint64_t before = testing::allocations_here;
  spiller.AddAll();
  EXPECT_EQ(testing::allocations_here, before) << "a pool of a TiB has 16 million of them";
  // Nobody has said that this one is to be written.
  ASSERT_TRUE(Put(*pool_, kPages + 1, 4 * kKiB));
  ASSERT_TRUE(spiller.Start().ok());
  for (uint64_t i = 0; i < kPages; ++i)
    ASSERT_TRUE(Eventually([&] { return OnDisk(i).length != 0; })) << i;
  EXPECT_TRUE(Eventually([&] { return spiller.waiting() == 0; }));
  EXPECT_EQ(OnDisk(kPages).length, 0u);
  EXPECT_EQ(OnDisk(kPages + 1).length, 0u);
  EXPECT_EQ(spiller.overtaken(), 0u);
}

TEST_F(SpillerTest, WhatADriveHasMissedWhileItWasOffIsWrittenWhenItIsBack) {
  disk::testing::SimTier sim;
  sim.options.device.breaker.retry.first = milliseconds(5);
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  auto pool = Pool::Create(
      {.bytes = 32 * kMiB, .huge_pages = HugePages::kOff, .generations = sim.tier->sequence()});
  ASSERT_TRUE(pool.ok());
  Spiller spiller(sim.tier.get(), pool->get());
  ASSERT_TRUE(spiller.Start().ok());
  const auto set = [&](uint64_t number) {
    const PagePin pin = Put(**pool, number, 4 * kKiB);
    const PageAt page{pin.offset(), pin.header().generation, KeyOf(number)};
    spiller.Add({&page, 1}, false, 0);
  };
  const auto on_disk = [&](uint64_t number) {
    const Key key = KeyOf(number);
    disk::DiskPage page;
    sim.tier->Find({&key, 1}, {&page, 1});
    return page.length != 0;
  };
  set(0);
  ASSERT_TRUE(Eventually([&] { return on_disk(0); }));
  sim.disk().SetFault([](const disk::IoRequest&) { return -EIO; });
  sim.tier->Clear(9, 1);
  EXPECT_FALSE(sim.tier->RecordClears());
  ASSERT_FALSE(sim.tier->on());
  for (uint64_t number = 1; number < 50; ++number) set(number);
  EXPECT_TRUE(Eventually([&] { return spiller.waiting() == 0; }));
  sim.disk().SetFault({});
  for (uint64_t number = 0; number < 50; ++number)
    EXPECT_TRUE(Eventually([&] { return on_disk(number); })) << number;
}

// Also of those that the looking for the others meets.
TEST_F(SpillerTest, PagesThatAreSetMeanwhileKeepTheirTenant) {
  constexpr TenantNumber kTenant{3};
  ASSERT_TRUE(Put(*pool_, 1, 4 * kKiB));
  Spiller spiller(tier_.get(), pool_.get());
  spiller.AddAll();
  std::vector<PageAt> set;
  for (uint64_t i = 2; i < 50; ++i) {
    const PagePin pin = Put(*pool_, i, 4 * kKiB);
    ASSERT_TRUE(pin);
    set.push_back({pin.offset(), pin.header().generation, KeyOf(i)});
  }
  spiller.Add(set, false, kTenant);
  ASSERT_TRUE(spiller.Start().ok());
  for (uint64_t i = 1; i < 50; ++i)
    ASSERT_TRUE(Eventually([&] { return OnDisk(i).length != 0; })) << i;
  EXPECT_EQ(OnDisk(1).owner, 0);
  for (uint64_t i = 2; i < 50; ++i) EXPECT_EQ(OnDisk(i).owner, kTenant) << i;
}

}  // namespace
}  // namespace peercache
