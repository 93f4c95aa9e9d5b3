// Tenants share a pool fairly: who has less than a fair share loses nothing to who floods it.
#include <gtest/gtest.h>

#include <vector>

#include "pool/pool_testing.h"
#include "pool/slot_table.h"

namespace peercache {
namespace {

constexpr size_t kPool = 32 * kMiB, kPage = 60 * kKiB, kOtherPage = 9 * kKiB;
constexpr TenantNumber kQuiet = 1, kHog = 2, kThird = 3;
constexpr uint64_t kHogFrom = 1'000'000;

class PoolTenants : public ::testing::TestWithParam<EvictionPolicy> {
 protected:
  PoolTenants() {
    for (const TenantNumber tenant : {kQuiet, kHog, kThird}) pool_->SetPresent(tenant, true);
  }
  // Sets page `number`, and evicts for it as upkeep does. False: there was no room for it.
  bool Set(TenantNumber tenant, uint64_t number, size_t length = kPage) {
    auto slot = pool_->Reserve(length);
    if (!slot.ok()) {
      Evict(*pool_, 16 * length, length);
      slot = pool_->Reserve(length);
    }
    if (!slot.ok()) return false;
    Fill(slot->payload(), KeyOf(number));
    std::vector<Reservation> slots;
    slots.push_back(std::move(*slot));
    const Key keys[] = {KeyOf(number)};
    const uint64_t checksums[] = {0};
    std::vector<PagePin> pins(1);
    pool_->CommitMany(slots, keys, 7, checksums, pins, tenant);
    return bool(pins[0]);
  }
  size_t SetMany(TenantNumber tenant, uint64_t first, size_t count, size_t length = kPage) {
    size_t stored = 0;
    for (size_t i = 0; i < count; ++i) stored += Set(tenant, first + i, length);
    return stored;
  }
  size_t Found(uint64_t first, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) found += pool_->Contains(KeyOf(first + i));
    return found;
  }

  std::unique_ptr<Pool> pool_ = MakePool(kPool, kMiB, GetParam());
  const size_t slot_ = SlotBytes(SizeClassOf(kPage));
  const size_t chunk_ = SlotTable::ChunkBytes(kPool);
  const size_t pages_ = kPool / chunk_ * (chunk_ / slot_);  // that fit
};

// The quiet one never even reads its pages, so each is older than any of the hog's.
TEST_P(PoolTenants, AWorkingSetBelowTheShareOutlastsAFlood) {
  const size_t working_set = pages_ / 4;
  ASSERT_EQ(SetMany(kQuiet, 0, working_set), working_set);
  EXPECT_EQ(SetMany(kHog, kHogFrom, 6 * pages_), 6 * pages_);
  EXPECT_EQ(Found(0, working_set), working_set);
  EXPECT_GT(pool_->BytesOf(kHog), kPool / 2) << "what the quiet one does not use is the hog's";
}

TEST_P(PoolTenants, ATenantAloneHasTheWholePool) {
  EXPECT_EQ(SetMany(kHog, kHogFrom, pages_), pages_);
  EXPECT_EQ(Found(kHogFrom, pages_), pages_);
  EXPECT_EQ(pool_->stats().evictions, 0u);
  EXPECT_FALSE(pool_->Spared(kHog));
  EXPECT_EQ(SetMany(kHog, kHogFrom + pages_, pages_), pages_) << "its own pages make room";
}

TEST_P(PoolTenants, WhoComesLaterGetsItsShareOfAFullPool) {
  ASSERT_EQ(SetMany(kHog, kHogFrom, 2 * pages_), 2 * pages_);
  for (size_t i = 0; i < 4 * pages_; ++i) {
    EXPECT_TRUE(Set(kQuiet, i));
    EXPECT_TRUE(Set(kHog, kHogFrom + 2 * pages_ + i));
  }
  EXPECT_NEAR(static_cast<double>(pool_->BytesOf(kQuiet)), kPool / 2., kPool / 16.);
  EXPECT_NEAR(static_cast<double>(pool_->BytesOf(kHog)), kPool / 2., kPool / 16.);
}

TEST_P(PoolTenants, TwoFloodsDoNotTouchTheThird) {
  const size_t small = pages_ / 8;
  ASSERT_EQ(SetMany(kQuiet, 0, small), small);
  for (size_t i = 0; i < 4 * pages_; ++i) {
    EXPECT_TRUE(Set(kHog, kHogFrom + i));
    EXPECT_TRUE(Set(kThird, 2 * kHogFrom + i));
  }
  EXPECT_EQ(Found(0, small), small);
}

TEST_P(PoolTenants, ChunksWithPagesOfWhoHasLessThanItsShareAreNotMadeOverToAnotherSize) {
  ASSERT_EQ(SetMany(kHog, kHogFrom, 3 * pages_ / 4), 3 * pages_ / 4);
  ASSERT_EQ(SetMany(kQuiet, 0, pages_ / 4), pages_ / 4);
  const size_t others = kPool / SlotBytes(SizeClassOf(kOtherPage));
  EXPECT_GT(SetMany(kHog, 2 * kHogFrom, 2 * others, kOtherPage), others);
  EXPECT_EQ(Found(0, pages_ / 4), pages_ / 4);
}

// What the hog has is all in use.
TEST_P(PoolTenants, PagesBelowTheShareGoOnlyWhereThatIsAskedFor) {
  ASSERT_TRUE(Set(kQuiet, 0));
  ASSERT_EQ(SetMany(kHog, kHogFrom, 8), 8u);
  std::vector<PagePin> pins;
  for (uint64_t i = 0; i < 8; ++i) pins.push_back(pool_->Find(KeyOf(kHogFrom + i)));
  EXPECT_TRUE(pool_->Spared(kQuiet));
  EXPECT_TRUE(pool_->TakeVictims(slot_, kPage).empty());
  EXPECT_TRUE(pool_->TakeVictims(slot_, kOtherPage).empty());
  const auto victims = pool_->TakeVictims(slot_, kPage, false);
  ASSERT_EQ(victims.size(), 1u);
  EXPECT_EQ(victims[0].key, KeyOf(0));
}

TEST_P(PoolTenants, WhatATenantThatIsGoneHasLeftGoesAsAnyOldPage) {
  ASSERT_EQ(SetMany(kQuiet, 0, pages_ / 4), pages_ / 4);
  pool_->SetPresent(kQuiet, false);
  EXPECT_EQ(SetMany(kHog, kHogFrom, 4 * pages_), 4 * pages_);
  EXPECT_EQ(Found(0, pages_ / 4), 0u);
  EXPECT_EQ(pool_->BytesOf(kQuiet), 0u);
}

TEST_P(PoolTenants, ReplicasAreNobodysAndGoFirst) {
  ASSERT_TRUE(Put(*pool_, 5, kPage, 0, PageKind::kReplica));
  EXPECT_EQ(pool_->BytesOf(0), 0u);
  auto pin = pool_->Find(KeyOf(5));
  pool_->Adopt(&pin, 9, kQuiet);
  EXPECT_EQ(pool_->BytesOf(kQuiet), slot_) << "the one that sets it has it";
  pin.Release();
  ASSERT_TRUE(Put(*pool_, 6, kPage, 0, PageKind::kReplica));
  ASSERT_TRUE(Set(kHog, 7));
  ASSERT_TRUE(Set(kHog, 8));
  const auto victims = pool_->TakeVictims(3 * slot_, kPage);
  ASSERT_EQ(victims.size(), 3u);
  EXPECT_EQ(victims[0].key, KeyOf(6));
  EXPECT_EQ(victims[1].key, KeyOf(7));
  pool_->TakeTagged(9, nullptr);
  EXPECT_EQ(pool_->BytesOf(kQuiet), 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, PoolTenants,
                         ::testing::Values(EvictionPolicy::kLru, EvictionPolicy::kS3Fifo));

}  // namespace
}  // namespace peercache
