#include "node/read/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/checksum.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

constexpr size_t kPage = 64 * kKiB;

// Pages 0..count-1 as an engine has received them.
struct Received {
  explicit Received(uint64_t first, size_t count)
      : memory(count * kPage), ok(count, 1), which(count) {
    std::iota(which.begin(), which.end(), size_t{0});
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(KeyOf(first + i));
      segments.push_back(std::span(memory).subspan(i * kPage, kPage));
      Fill(segments.back(), keys.back());
    }
    from = {segments, 1};
  }
  std::vector<std::byte> memory;
  std::vector<uint8_t> ok;
  std::vector<size_t> which;
  std::vector<Key> keys;
  std::vector<Bytes> segments;
  Destinations from;
};

size_t Found(Replicas& replicas, const Received& pages) {
  std::vector<PagePin> pins(pages.keys.size());
  replicas.Find(pages.keys, pins);
  size_t found = 0;
  for (size_t i = 0; i < pins.size(); ++i) {
    if (!pins[i]) continue;
    EXPECT_TRUE(IsPageOf(pins[i], pages.keys[i]));
    ++found;
  }
  return found;
}

size_t Contained(const Replicas& replicas, const Received& pages) {
  std::vector<uint8_t> there(pages.keys.size());
  replicas.ContainsMany(pages.keys, there);
  return static_cast<size_t>(std::count(there.begin(), there.end(), uint8_t{1}));
}

void Keep(Replicas& replicas, const Received& pages) {
  const std::vector<uint64_t> unknown(pages.keys.size());
  replicas.Keep(pages.keys, pages.which, pages.ok, pages.from, replicas.epoch(), unknown);
}

TEST(ReplicasTest, APageThatIsFetchedAgainIsKept) {
  Replicas replicas(MakePool(16 * kMiB), {});
  const Received pages(1, 4), others(100, 4);
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 0u) << "once is not enough";
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 4u);
  EXPECT_EQ(Found(replicas, others), 0u);
  EXPECT_EQ(Contained(replicas, pages), 4u);
  EXPECT_EQ(Contained(replicas, others), 0u);
}

TEST(ReplicasTest, WhileEnginesShareEverythingFetchedIsKept) {
  Replicas replicas(MakePool(16 * kMiB), {});
  for (int i = 0; i < 8; ++i) replicas.Observe(7, 1);
  const Received pages(1, 4);
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 4u);
  for (int i = 0; i < 32; ++i) replicas.Observe(0, 8);
  const Received later(50, 4);
  Keep(replicas, later);
  EXPECT_EQ(Found(replicas, later), 0u) << "sharing is over";
}

TEST(ReplicasTest, TheOldestGiveWayAtOnceAndPinnedOnesStay) {
  Replicas replicas(MakePool(8 * kMiB), {});
  for (int i = 0; i < 8; ++i) replicas.Observe(1, 0);
  const Received first(0, 8);
  Keep(replicas, first);
  std::vector<PagePin> pins(first.keys.size());
  replicas.Find(first.keys, pins);
  for (uint64_t round = 1; round < 40; ++round) {
    const Received pages(round * 1000, 16);
    Keep(replicas, pages);
    ASSERT_EQ(Found(replicas, pages), 16u);
  }
  for (size_t i = 0; i < pins.size(); ++i) EXPECT_TRUE(IsPageOf(pins[i], first.keys[i]));
  EXPECT_LE(replicas.stats().used_bytes, 8 * kMiB);
}

TEST(ReplicasTest, MissesAreNotKept) {
  Replicas replicas(MakePool(8 * kMiB), {});
  for (int i = 0; i < 8; ++i) replicas.Observe(1, 0);
  Received pages(1, 2);
  pages.ok[1] = 0;
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 1u);
}

TEST(ReplicasTest, WhatIsReadFromPagesThatWereTakenBackIsNotKept) {
  Replicas replicas(MakePool(8 * kMiB), {});
  for (int i = 0; i < 8; ++i) replicas.Observe(1, 0);
  Permit permit = Permit::Create().value();
  Received pages(1, 2);
  pages.from.permit = &permit;
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 2u);
  permit.Revoke();
  Received late(10, 2);
  late.from.permit = &permit;
  Keep(replicas, late);
  EXPECT_EQ(Found(replicas, late), 0u);
}

TEST(ReplicasTest, NothingReadBeforeAClearIsThereAfterIt) {
  Replicas replicas(MakePool(8 * kMiB), {});
  for (int i = 0; i < 8; ++i) replicas.Observe(1, 0);
  const Received pages(1, 4), late(10, 4);
  Keep(replicas, pages);
  const uint64_t before = replicas.epoch();
  replicas.Clear();
  EXPECT_EQ(Found(replicas, pages), 0u);
  replicas.Keep(late.keys, late.which, late.ok, late.from, before, std::vector<uint64_t>(4));
  EXPECT_EQ(Found(replicas, late), 0u);
}

class PromotionTest : public ::testing::Test {
 protected:
  // The second fetch promotes.
  void Fetch(const Received& pages) { Keep(replicas_, pages); }
  size_t InPool(const Received& pages) const {
    size_t found = 0;
    for (const Key& key : pages.keys) found += pool_->Contains(key);
    return found;
  }
  void Settle() { (void)replicas_.TakePromoted(); }

  const std::unique_ptr<Pool> pool_ = MakePool(16 * kMiB);
  Replicas replicas_{nullptr, {pool_.get(), 4 * kMiB, 8 * kMiB}};
};

TEST_F(PromotionTest, APageThatIsFetchedAgainComesIntoThePoolToBePublished) {
  const Received pages(1, 4);
  Fetch(pages);
  EXPECT_EQ(InPool(pages), 0u);
  const uint64_t kept = replicas_.kept();
  Fetch(pages);
  EXPECT_EQ(InPool(pages), 4u);
  EXPECT_GT(replicas_.kept(), kept) << "a get that is under way looks again";
  const auto promoted = replicas_.TakePromoted();
  ASSERT_EQ(promoted.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(promoted[i].replica());
    EXPECT_TRUE(IsPageOf(promoted[i], pages.keys[i]));
  }
  EXPECT_TRUE(replicas_.TakePromoted().empty());
  EXPECT_EQ(pool_->stats().replicas, 4u);
}

TEST_F(PromotionTest, ItsShareIsBoundedAndTheOldestGo) {
  const Received old(1, 40), more(1000, 40);
  for (const Received* pages : {&old, &old, &more, &more}) Fetch(*pages);
  Settle();
  EXPECT_LE(pool_->stats().replica_bytes, 4 * kMiB);
  EXPECT_LT(InPool(more), 40u);
  const TimePoint now = Clock::now();
  const size_t surplus = replicas_.Surplus(now);
  EXPECT_EQ(surplus, kMiB) << "at most a quarter at once";
  for (int i = 0; i < 2; ++i) Fetch(more);
  EXPECT_EQ(replicas_.Surplus(now + milliseconds(900)), 0u) << "and not all the time";
  EXPECT_EQ(replicas_.Surplus(now + milliseconds(1000)), kMiB);
  EXPECT_EQ(replicas_.Surplus(now + milliseconds(2000)), 0u) << "asked for once";
  const auto gone = pool_->TakeReplicas(surplus);
  ASSERT_GE(gone.size(), surplus / (2 * kPage));
  for (const Victim& victim : gone) {
    EXPECT_TRUE(std::count(old.keys.begin(), old.keys.end(), victim.key));
    pool_->Quarantine(victim, Clock::now());
  }
  EXPECT_EQ(pool_->stats().evictions_replica, gone.size());
  EXPECT_EQ(pool_->stats().evictions, 0u);
}

TEST_F(PromotionTest, OnlyMemoryThatNothingElseUsesIsTaken) {
  std::vector<PagePin> own;
  for (uint64_t n = 0; pool_->stats().free_bytes >= 8 * kMiB; ++n)
    own.push_back(Put(*pool_, 5000 + n, kPage));
  const Received pages(1, 4);
  Fetch(pages);
  Fetch(pages);
  EXPECT_EQ(InPool(pages), 0u);
  EXPECT_EQ(replicas_.Surplus(Clock::now()), 0u) << "that other replicas go would be no help";
}

TEST_F(PromotionTest, BytesThatAnEngineHasChangedSinceAreNotKept) {
  Received pages(1, 2);
  std::vector<uint64_t> checksums;
  for (const Bytes& page : pages.segments) checksums.push_back(Checksum(page));
  const auto keep = [&] {
    replicas_.Keep(pages.keys, pages.which, pages.ok, pages.from, replicas_.epoch(), checksums);
  };
  keep();
  pages.segments[1][100] ^= std::byte{1};
  keep();
  EXPECT_TRUE(pool_->Contains(pages.keys[0]));
  EXPECT_FALSE(pool_->Contains(pages.keys[1]));
  EXPECT_EQ(replicas_.TakePromoted()[0].header().checksum, checksums[0]);
}

TEST_F(PromotionTest, AClearOfAnyTagTakesThemAll) {
  const Received pages(1, 4);
  Fetch(pages);
  const uint64_t before = replicas_.epoch();
  Fetch(pages);
  Put(*pool_, 7000, kPage, 5).Release();
  size_t busy = 0;
  EXPECT_TRUE(pool_->TakeTagged(9, &busy).empty());
  EXPECT_EQ(busy, 4u) << "not published yet";
  Settle();
  EXPECT_EQ(pool_->TakeTagged(9, &busy).size(), 4u);
  EXPECT_EQ(busy, 0u);
  EXPECT_TRUE(pool_->Contains(KeyOf(7000)));
  replicas_.Clear();
  const Received late(50, 2);
  for (int i = 0; i < 2; ++i)
    replicas_.Keep(late.keys, late.which, late.ok, late.from, before, std::vector<uint64_t>(2));
  EXPECT_EQ(InPool(late), 0u) << "read before the clear";
}

TEST(ReplicasTest, WithoutMemoryItKeepsNothing) {
  EXPECT_EQ(Replicas::ShareOf(512 * kMiB, 10), 0u);
  EXPECT_EQ(Replicas::ShareOf(4096 * kMiB, 0), 0u);
  EXPECT_EQ(Replicas::ShareOf(1024 * kMiB, 10), 102 * kMiB);
  Replicas replicas(nullptr, {});
  const Received pages(1, 4);
  Keep(replicas, pages);
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 0u);
  EXPECT_EQ(Contained(replicas, pages), 0u);
  replicas.Clear();
}

}  // namespace
}  // namespace peercache
