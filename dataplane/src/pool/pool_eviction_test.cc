// Pool: pages that give way, to others or to a clear, and what becomes of their slots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "pool/pool.h"
#include "pool/pool_testing.h"
#include "pool/size_class.h"

namespace peercache {
namespace {

using ::testing::HasSubstr;

TEST(Pool, ExhaustionIsAnErrorThatEvictionEnds) {
  auto pool = MakePool(4 * kMiB);
  uint64_t n = 0;
  while (Put(*pool, n, 64 * kKiB)) ++n;
  EXPECT_EQ(n, 2 * (2 * kMiB / SlotBytes(SizeClassOf(64 * kKiB))));
  auto full = pool->Reserve(64 * kKiB);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(full.status().message(), HasSubstr("page of 64Ki in the pool of 4Mi; evict"));
  EXPECT_EQ(pool->stats().reserve_failures, 2u);
  EXPECT_EQ(pool->FreeBytes(64 * kKiB), 0u);
  EXPECT_GE(Evict(*pool, 1, 64 * kKiB), 64 * kKiB);
  EXPECT_EQ(pool->FreeBytes(64 * kKiB), SlotBytes(SizeClassOf(64 * kKiB)));
  EXPECT_TRUE(pool->Reserve(64 * kKiB).ok());
}

TEST(Pool, EvictsInOrderOfUse) {
  auto pool = MakePool(4 * kMiB);
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(Put(*pool, i, 50000));
  ASSERT_TRUE(pool->Find(KeyOf(0)));
  const Key some[] = {KeyOf(2)};
  PagePin pins[1];
  pool->FindMany(some, pins);
  pins[0].Release();
  PagePin pinned = pool->Find(KeyOf(4));
  const uint64_t offset = pinned.offset(), generation = pinned.header().generation;
  ASSERT_TRUE(pool->Contains(KeyOf(1))) << "is no use";
  std::vector<uint64_t> want = {1, 3};
  for (uint64_t i = 5; i < 20; ++i) want.push_back(i);
  want.insert(want.end(), {0, 2});
  for (uint64_t i : want) {
    const auto victims = pool->TakeVictims(1, 50000);
    ASSERT_EQ(victims.size(), 1u);
    EXPECT_EQ(victims[0].key, KeyOf(i)) << i;
  }
  EXPECT_TRUE(pool->TakeVictims(1, 50000).empty());
  pinned.Release();
  ASSERT_TRUE(pool->FindAt(offset, generation, KeyOf(4)));
  EXPECT_EQ(pool->TakeVictims(1, 50000).at(0).key, KeyOf(4));
  EXPECT_EQ(pool->stats().evictions, 20u);
}

TEST(Pool, TakesAsManyBytesAsAskedFor) {
  auto pool = MakePool(8 * kMiB);
  const size_t slot = SlotBytes(SizeClassOf(50000));
  for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(Put(*pool, i, 50000));
  EXPECT_EQ(pool->TakeVictims(10 * slot, 50000).size(), 10u);
  EXPECT_EQ(pool->TakeVictims(10 * slot + 1, 50000).size(), 11u);
  EXPECT_EQ(pool->TakeVictims(0, 50000).size(), 0u);
  EXPECT_EQ(pool->TakeVictims(SIZE_MAX, 50000).size(), 29u);
}

TEST(Pool, AWithdrawnPageIsOutOfReachAndUntouchedUntilReclaimed) {
  auto pool = MakePool(2 * kMiB, 1 * kMiB);
  uint64_t offset, generation;
  {
    PagePin pin = Put(*pool, 1, 1 * kMiB);
    offset = pin.offset();
    generation = pin.header().generation;
  }
  const std::span<const std::byte> bytes(pool->base() + offset + 64, 1 * kMiB);
  const auto gone = [&](const char* when) {
    EXPECT_FALSE(pool->Find(KeyOf(1))) << when;
    EXPECT_FALSE(pool->Contains(KeyOf(1))) << when;
    EXPECT_FALSE(pool->FindAt(offset, generation, KeyOf(1))) << when;
    EXPECT_FALSE(pool->AddPublishedTo(offset, generation, 1)) << when;
    EXPECT_FALSE(pool->RemovePublishedTo(offset, generation, 1, 1)) << when;
  };
  const auto held = [&](const char* when) {
    gone(when);
    EXPECT_FALSE(pool->Reserve(1 * kMiB).ok()) << when;
    EXPECT_TRUE(IsPageOf(bytes, KeyOf(1))) << when;
  };
  const auto victims = pool->TakeVictims(1, 1 * kMiB);
  ASSERT_EQ(victims.size(), 1u);
  EXPECT_EQ(victims[0].offset, offset);
  EXPECT_EQ(victims[0].generation, generation);
  EXPECT_EQ(victims[0].length, 1 * kMiB);
  held("withdrawing");
  EXPECT_EQ(pool->FreeBytes(1 * kMiB), 0u);
  const TimePoint now = Clock::now();
  EXPECT_EQ(pool->Reclaim(now + std::chrono::hours(1)), 0u);
  held("withdrawing, after reclaim");

  const TimePoint reuse_at = now + milliseconds(100);
  pool->Quarantine(victims[0], reuse_at);
  pool->Quarantine(victims[0], now);  // changes nothing
  held("quarantined");
  EXPECT_EQ(pool->stats().quarantined_bytes, SlotBytes(SizeClassOf(1 * kMiB)));
  EXPECT_EQ(pool->FreeBytes(1 * kMiB), SlotBytes(SizeClassOf(1 * kMiB)));
  EXPECT_EQ(pool->Reclaim(reuse_at), 0u) << "not later than reuse_at";
  held("at reuse_at");
  EXPECT_EQ(pool->Reclaim(reuse_at + Duration(1)), SlotBytes(SizeClassOf(1 * kMiB)));
  gone("free");
  pool->Quarantine(victims[0], now);  // free: changes nothing
  EXPECT_EQ(pool->stats().quarantined_bytes, 0u);

  auto reservation = pool->Reserve(1 * kMiB);
  ASSERT_TRUE(reservation.ok());
  EXPECT_GT(reservation->generation(), generation);
  gone("writing");
  pool->Quarantine(victims[0], now);  // another generation: changes nothing
  EXPECT_EQ(pool->stats().quarantined_bytes, 0u);
}

TEST(Pool, NoHeaderIsValidWhileItsPageIsWritten) {
  auto pool = MakePool(2 * kMiB, 1 * kMiB);
  Put(*pool, 1, 1 * kMiB);
  ASSERT_GT(Evict(*pool, 1, 1 * kMiB), 0u);
  auto reservation = pool->Reserve(1 * kMiB);
  ASSERT_TRUE(reservation.ok());
  const auto* header =
      reinterpret_cast<const SlotHeader*>(reservation->payload().data() - sizeof(SlotHeader));
  EXPECT_EQ(header->generation, 0u);
}

TEST(Pool, AKeyCanComeBackWhileItsOldPageIsWithdrawn) {
  auto pool = MakePool(16 * kMiB);
  const uint64_t old = Put(*pool, 1, 5000).offset();
  const auto victims = pool->TakeVictims(1, 5000);
  PagePin again = Put(*pool, 1, 5000);
  ASSERT_TRUE(again);
  EXPECT_NE(again.offset(), old);
  pool->Quarantine(victims.at(0), Clock::now());
  pool->Reclaim(Clock::now() + milliseconds(1));
  EXPECT_TRUE(IsPageOf(pool->Find(KeyOf(1)), KeyOf(1)));
}

TEST(Pool, SmallPagesMakeRoomForLargeOnesAndBack) {
  auto pool = MakePool(32 * kMiB);
  uint64_t n = 0;
  for (int round = 0; round < 3; ++round) {
    while (Put(*pool, n, 64 * kKiB)) ++n;
    const uint64_t small = pool->stats().pages;
    EXPECT_GT(small, 400u);
    for (int i = 0; i < 20; ++i, ++n) {
      while (pool->FreeBytes(1 * kMiB) == 0) ASSERT_GT(Evict(*pool, 1, 1 * kMiB), 0u);
      ASSERT_TRUE(Put(*pool, n, 1 * kMiB)) << i;
    }
    EXPECT_LT(pool->stats().pages, small);
    // Small pages that are used again and again take the chunks back from large ones that are not.
    for (int i = 0; i < 1000; ++i, ++n)
      while (!Put(*pool, n, 64 * kKiB)) ASSERT_GT(Evict(*pool, 1, 64 * kKiB), 0u);
    size_t large = 0;
    pool->ForEachReady([&](const PageInfo& page) { large += page.length == 1 * kMiB; });
    EXPECT_EQ(large, 0u);
    Evict(*pool, SIZE_MAX, 64 * kKiB);
  }
}

TEST(Pool, ALargePageTakesSeveralChunksOfOthers) {
  auto pool = MakePool(32 * kMiB);
  uint64_t n = 0;
  while (Put(*pool, n, 10000)) ++n;
  PagePin pinned = pool->Find(KeyOf(n / 2));  // splits the pool in two
  const auto victims = pool->TakeVictims(1, 9 * kMiB);
  ASSERT_FALSE(victims.empty());
  EXPECT_LT(victims.size(), n);
  for (const Victim& victim : victims) pool->Quarantine(victim, Clock::now());
  EXPECT_GE(pool->FreeBytes(9 * kMiB), 9 * kMiB);
  pool->Reclaim(Clock::now() + milliseconds(1));
  EXPECT_TRUE(IsPageOf(Put(*pool, n, 9 * kMiB), KeyOf(n)));
  EXPECT_TRUE(IsPageOf(pinned, KeyOf(n / 2)));
}

TEST(Pool, PinnedChunksAreLeftToOtherSizes) {
  auto pool = MakePool(4 * kMiB);  // two chunks
  std::vector<PagePin> pins;
  uint64_t n = 0;
  for (PagePin pin; (pin = Put(*pool, n, 64 * kKiB)); ++n) pins.push_back(std::move(pin));
  EXPECT_TRUE(pool->TakeVictims(1, 1 * kMiB).empty());
  for (PagePin& pin : pins)
    if (pin.offset() < 2 * kMiB) pin.Release();
  const auto victims = pool->TakeVictims(SIZE_MAX, 1 * kMiB);
  EXPECT_EQ(victims.size(), n / 2);
  for (const Victim& victim : victims) EXPECT_LT(victim.offset, 2 * kMiB);
}

TEST(Pool, TakeTaggedTakesThatTagAndCountsPinnedPages) {
  auto pool = MakePool(16 * kMiB);
  std::vector<PagePin> pins;
  for (uint64_t i = 0; i < 300; ++i) {
    PagePin pin = Put(*pool, i, i % 2 == 0 ? 5000 : 20000, i % 3);
    ASSERT_TRUE(pin);
    if (i < 30) pins.push_back(std::move(pin));
  }
  size_t busy = 0;
  const auto victims = pool->TakeTagged(1, &busy);
  EXPECT_EQ(victims.size(), 90u);
  EXPECT_EQ(busy, 10u);
  for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(pool->Contains(KeyOf(i)), i % 3 != 1 || i < 30) << i;
  EXPECT_EQ(pool->stats().evictions, 0u);
}

TEST(Pool, AClearedPageIsNotTakenForOneInTheMemoryThatPeersRead) {
  auto pool = MakePool(16 * kMiB);
  const auto header = [&](uint64_t offset) {
    SlotHeader read;
    std::memcpy(&read, pool->base() + offset, sizeof(read));
    return read;
  };
  uint64_t offsets[3];
  for (uint64_t i = 0; i < 3; ++i) offsets[i] = Put(*pool, i, 5000, i).offset();
  size_t busy = 0;
  ASSERT_EQ(pool->TakeTagged(1, &busy).size(), 1u);
  EXPECT_EQ(header(offsets[1]).generation, 0u);
  EXPECT_NE(header(offsets[0]).generation, 0u);
  EXPECT_EQ(pool->TakeTagged(TagRange::OfGroup(0), &busy).size(), 2u) << "the others";
  EXPECT_EQ(header(offsets[0]).generation, 0u);
  EXPECT_EQ(busy, 0u);
}

}  // namespace
}  // namespace peercache
