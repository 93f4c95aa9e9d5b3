#include "pool/pool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <map>
#include <set>
#include <vector>

#include "pool/pool_testing.h"
#include "pool/slot_table.h"
#include "pool/victims.h"

namespace peercache {
namespace {

using ::testing::HasSubstr;

TEST(Pool, GivesBackWhatWasCommitted) {
  auto pool = MakePool(16 * kMiB);
  auto reservation = pool->Reserve(100000);
  ASSERT_TRUE(reservation.ok());
  EXPECT_EQ(reservation->payload().size(), 100000u);
  const uint64_t generation = reservation->generation();
  EXPECT_GT(generation, 0u);
  Fill(reservation->payload(), KeyOf(1));
  EXPECT_FALSE(pool->Find(KeyOf(1)));
  EXPECT_FALSE(pool->Contains(KeyOf(1)));
  bool duplicate = true;
  PagePin pin = pool->Commit(std::move(reservation).value(), KeyOf(1), 77, 88, &duplicate);
  EXPECT_FALSE(duplicate);
  EXPECT_TRUE(IsPageOf(pin, KeyOf(1)));
  EXPECT_EQ(pin.header().generation, generation);
  EXPECT_EQ(pin.header().tag, 77u);
  EXPECT_EQ(pin.header().checksum, 88u);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(&pin.header()), pool->base() + pin.offset());
  EXPECT_EQ(pin.payload().data(), pool->base() + pin.offset() + sizeof(SlotHeader));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pin.payload().data()) % kPageAlignment, 0u);

  EXPECT_TRUE(pool->Contains(KeyOf(1)));
  EXPECT_TRUE(IsPageOf(pool->Find(KeyOf(1)), KeyOf(1)));
  EXPECT_TRUE(IsPageOf(pool->FindAt(pin.offset(), generation, KeyOf(1)), KeyOf(1)));
  EXPECT_FALSE(pool->Find(KeyOf(2)));
}

TEST(Pool, StatsFollowASlotThroughItsStates) {
  auto pool = MakePool(16 * kMiB);
  EXPECT_EQ(pool->stats().slots.free, 0u) << "no chunk has a size yet";
  auto reservation = pool->Reserve(100000);
  ASSERT_TRUE(reservation.ok());
  EXPECT_EQ(pool->stats().slots.writing, 1u);
  const uint64_t others = pool->stats().slots.free;
  EXPECT_GT(others, 0u);
  pool->Commit(std::move(reservation).value(), KeyOf(1), 1, 0, nullptr).Release();
  EXPECT_EQ(pool->stats().slots.writing, 0u);
  EXPECT_EQ(pool->stats().slots.ready, 1u);
  const std::vector<Victim> victims = pool->TakeVictims(1, 100000);
  ASSERT_EQ(victims.size(), 1u);
  EXPECT_EQ(pool->stats().slots.ready, 0u);
  EXPECT_EQ(pool->stats().slots.withdrawing, 1u);
  const TimePoint now = Clock::now();
  pool->Quarantine(victims[0], now);
  EXPECT_EQ(pool->stats().slots.withdrawing, 0u);
  EXPECT_EQ(pool->stats().slots.quarantined, 1u);
  EXPECT_GT(pool->Reclaim(now + milliseconds(1)), 0u);
  EXPECT_EQ(pool->stats().slots.quarantined, 0u);
  EXPECT_EQ(pool->stats().slots.free, others + 1);
}

TEST(Pool, StatsTellEvictionsForAnotherSizeAndClearsApart) {
  auto pool = MakePool(16 * kMiB);
  uint64_t pages = 0;
  while (Put(*pool, pages, 5000)) ++pages;
  const size_t own = pool->TakeVictims(1, 5000).size();
  EXPECT_EQ(pool->stats().evictions, own);
  EXPECT_EQ(pool->stats().evictions_resize, 0u);
  const size_t others = pool->TakeVictims(1, 2 * kMiB).size();
  EXPECT_GT(others, 0u);
  EXPECT_EQ(pool->stats().evictions, own + others);
  EXPECT_EQ(pool->stats().evictions_resize, others);
  EXPECT_EQ(pool->stats().cleared, 0u);
  size_t busy = 0;
  const size_t cleared = pool->TakeTagged(0, &busy).size();
  EXPECT_GT(cleared, 0u);
  EXPECT_EQ(pool->stats().cleared, cleared);
  EXPECT_EQ(pool->stats().evictions, own + others);
}

// One step of the search for room looks at some pages only (victims.h).
TEST(Pool, RoomIsFoundBehindAnyNumberOfChunksInUse) {
  auto pool = MakePool(96 * kMiB);
  const size_t chunk_bytes = SlotTable::ChunkBytes(pool->size());
  std::map<uint64_t, uint64_t> last_of;  // of each chunk, the page that was set last
  uint64_t pages = 0;
  while (const PagePin pin = Put(*pool, pages, 4000)) last_of[pin.offset() / chunk_bytes] = pages++;
  ASSERT_GT(pages, VictimSearch::kMostLooks + 1000);
  std::vector<PagePin> pins;
  for (const auto& [chunk, page] : last_of)
    if (page != pages - 1) pins.push_back(pool->Find(KeyOf(page)));
  pool->Find(KeyOf(pages - 1)).Release();  // so that its chunk is the youngest
  EXPECT_FALSE(pool->TakeVictims(1, kMiB).empty());
}

TEST(Pool, FindManyFillsHitsAndEmptiesMisses) {
  auto pool = MakePool(64 * kMiB);
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 1000; ++i) {
    keys.push_back(KeyOf(i));
    if (i % 3 == 0) {
      ASSERT_TRUE(Put(*pool, i, 5000));
    }
  }
  std::vector<PagePin> pins(keys.size());
  for (PagePin& pin : pins) pin = pool->Find(KeyOf(0));  // to be overwritten
  pool->FindMany(keys, pins);
  for (uint64_t i = 0; i < 1000; ++i) {
    if (i % 3 == 0)
      EXPECT_TRUE(IsPageOf(pins[i], keys[i]));
    else
      EXPECT_FALSE(pins[i]);
  }
  pins.clear();
  EXPECT_EQ(pool->TakeVictims(64 * kMiB, 5000).size(), 334u) << "some page is still pinned";
}

TEST(Pool, FindAtAsksForSlotGenerationAndKey) {
  auto pool = MakePool(16 * kMiB);
  PagePin pin = Put(*pool, 1, 5000);
  const uint64_t offset = pin.offset(), generation = pin.header().generation;
  EXPECT_TRUE(pool->FindAt(offset, generation, KeyOf(1)));
  EXPECT_FALSE(pool->FindAt(offset, generation, KeyOf(2)));
  EXPECT_FALSE(pool->FindAt(offset, generation + 1, KeyOf(1)));
  EXPECT_FALSE(pool->FindAt(offset, generation - 1, KeyOf(1)));
  for (uint64_t wrong : {offset + 1, offset + 64, offset + SlotBytes(SizeClassOf(5000)),
                         pool->size() - 64, pool->size(), UINT64_MAX, uint64_t{1} << 63})
    EXPECT_FALSE(pool->FindAt(wrong, generation, KeyOf(1))) << wrong;
}

// More than one batch of them, with some that are not there.
TEST(Pool, ManyAreFoundBySlotAndContainedAsOneIs) {
  auto pool = MakePool(16 * kMiB);
  std::vector<PageAt> pages;
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 600; ++i) {
    const PagePin pin = Put(*pool, i, 5000);
    pages.push_back(
        {pin.offset(), pin.header().generation + (i % 3 == 0), KeyOf(i + (i % 5 == 0))});
    keys.push_back(KeyOf(i % 4 == 0 ? i + 1000 : i));
  }
  std::vector<PagePin> pins(pages.size());
  pool->FindManyAt(pages, pins);
  std::vector<uint8_t> there(keys.size());
  there[0] = 1;
  pool->ContainsMany(keys, there);
  for (uint64_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(static_cast<bool>(pins[i]), i % 3 != 0 && i % 5 != 0) << i;
    if (pins[i]) {
      EXPECT_TRUE(IsPageOf(pins[i], KeyOf(i))) << i;
    }
    EXPECT_EQ(there[i], i % 4 != 0 || i == 0) << i << ": what was there before stays";
  }
  pins.clear();
  EXPECT_EQ(pool->TakeVictims(64 * kMiB, 5000).size(), 600u) << "some page is still pinned";
}

TEST(Pool, ManyAreReservedAndCommittedAsOneIs) {
  auto pool = MakePool(16 * kMiB);
  std::vector<size_t> lengths;
  std::vector<Key> keys;
  std::vector<uint64_t> checksums;
  for (uint64_t i = 0; i < 600; ++i) {
    lengths.push_back(i % 7 == 0 ? 0 : 5000);
    keys.push_back(KeyOf(i == 5 ? 6 : i));
    checksums.push_back(100 + i);
  }
  lengths[8] = 65 * kMiB;
  std::vector<Reservation> slots(lengths.size());
  pool->ReserveMany(lengths, slots);
  for (uint64_t i = 0; i < slots.size(); ++i) {
    ASSERT_EQ(static_cast<bool>(slots[i]), i % 7 != 0 && i != 8) << i;
    if (slots[i]) Fill(slots[i].payload(), keys[i]);
  }
  slots[9] = {};
  EXPECT_EQ(pool->stats().reserve_failures, 0u) << "these are asked for one by one, if at all";
  std::vector<PagePin> pins(slots.size());
  pool->CommitMany(slots, keys, 77, checksums, pins);
  for (uint64_t i = 0; i < pins.size(); ++i) {
    ASSERT_EQ(static_cast<bool>(pins[i]), i % 7 != 0 && i != 8 && i != 9) << i;
    if (!pins[i]) continue;
    EXPECT_TRUE(IsPageOf(pins[i], keys[i])) << i;
    EXPECT_EQ(pins[i].header().tag, 77u);
    EXPECT_EQ(pins[i].header().checksum, i == 6 ? 105u : 100u + i);
  }
  EXPECT_EQ(pool->stats().duplicate_commits, 1u);
  EXPECT_EQ(pins[5].offset(), pins[6].offset());
  slots.clear();
  EXPECT_EQ(pool->stats().slots.writing, 0u);
  EXPECT_EQ(pool->stats().pages, pool->stats().slots.ready);
}

TEST(Pool, OfManyThatDoNotFitTheFirstAreReserved) {
  auto pool = MakePool(16 * kMiB, 4 * kMiB);
  const std::vector<size_t> lengths(30, kMiB);
  std::vector<Reservation> slots(lengths.size());
  pool->ReserveMany(lengths, slots);
  const auto none =
      std::find_if(slots.begin(), slots.end(), [](const auto& slot) { return !slot; });
  EXPECT_GT(none - slots.begin(), 8);
  EXPECT_LT(none - slots.begin(), 17);
  EXPECT_EQ(std::count_if(none, slots.end(), [](const auto& slot) { return bool(slot); }), 0);
  EXPECT_FALSE(pool->Reserve(kMiB).ok());
}

TEST(Pool, DuplicateCommitFreesItsSlotAndPinsTheFirst) {
  auto pool = MakePool(16 * kMiB);
  PagePin first = Put(*pool, 1, 5000);
  const size_t used = pool->stats().used_bytes;
  auto reservation = pool->Reserve(5000);
  ASSERT_TRUE(reservation.ok());
  bool duplicate = false;
  PagePin second = pool->Commit(std::move(reservation).value(), KeyOf(1), 0, 0, &duplicate);
  EXPECT_TRUE(duplicate);
  EXPECT_EQ(second.offset(), first.offset());
  EXPECT_EQ(pool->stats().used_bytes, used);
  EXPECT_EQ(pool->stats().duplicate_commits, 1u);
  first.Release();
  EXPECT_TRUE(pool->TakeVictims(1, 5000).empty()) << "the second pin must hold the page";
  second.Release();
  EXPECT_EQ(pool->TakeVictims(1, 5000).size(), 1u);
}

TEST(Pool, ReservationThatIsDroppedIsFree) {
  auto pool = MakePool(16 * kMiB);
  {
    auto a = pool->Reserve(5000);
    auto b = pool->Reserve(5000);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_NE(a->payload().data(), b->payload().data());
    *a = std::move(b).value();  // drops a's slot
    EXPECT_EQ(pool->stats().used_bytes, SlotBytes(SizeClassOf(5000)));
  }
  EXPECT_EQ(pool->stats().used_bytes, 0u);
}

TEST(Pool, RefusesLengthsItCannotHold) {
  auto pool = MakePool(16 * kMiB, 1 * kMiB);
  EXPECT_EQ(pool->max_page_bytes(), 1 * kMiB);
  for (size_t length : {size_t{0}, 1 * kMiB + 1, SIZE_MAX}) {
    auto reservation = pool->Reserve(length);
    ASSERT_FALSE(reservation.ok());
    EXPECT_EQ(reservation.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(reservation.status().message(), HasSubstr("between 1 and 1048576"));
    EXPECT_TRUE(pool->TakeVictims(1, length).empty());
    EXPECT_EQ(pool->FreeBytes(length), 0u);
  }
  EXPECT_TRUE(pool->Reserve(1 * kMiB).ok());
  EXPECT_TRUE(pool->Reserve(1).ok());
}

TEST(Pool, TheLongestPageNeedNotFillItsClass) {
  auto pool = MakePool(16 * kMiB, 1000000);
  ASSERT_TRUE(Put(*pool, 1, 1000000));
  EXPECT_FALSE(pool->Reserve(1000001).ok());
  const PoolUse use = pool->use();
  ASSERT_EQ(use.sizes.size(), 1u);
  EXPECT_GT(use.sizes[0].length, 1000000u);
  EXPECT_GT(pool->FreeBytes(use.sizes[0].length), 0u);
  EXPECT_EQ(pool->TakeVictims(1, use.sizes[0].length).size(), 1u);
}

TEST(Pool, UseSaysWhatSetsTookAndWhatIsThereForMore) {
  auto pool = MakePool(16 * kMiB);
  EXPECT_TRUE(pool->use().sizes.empty());
  EXPECT_EQ(pool->use().usable_bytes, 16 * kMiB);
  EXPECT_EQ(pool->NextReuse(), TimePoint::max());
  for (uint64_t i = 0; i < 10; ++i) Put(*pool, i, 5000);
  Put(*pool, 3, 5000);             // a duplicate takes nothing
  (void)pool->Reserve(5000).ok();  // nor does what is dropped
  Put(*pool, 100, 1 * kMiB);
  const TimePoint at = Clock::now() + milliseconds(5);
  pool->Quarantine(pool->TakeVictims(1, 5000).at(0), at);
  EXPECT_EQ(pool->NextReuse(), at);
  const PoolUse use = pool->use();
  const size_t slot = SlotBytes(SizeClassOf(5000)), large = SlotBytes(SizeClassOf(1 * kMiB));
  ASSERT_EQ(use.sizes.size(), 2u);
  EXPECT_EQ(use.sizes[0].slot_bytes, slot);
  EXPECT_EQ(use.sizes[0].taken_bytes, 10 * slot);
  EXPECT_EQ(use.sizes[0].quarantined_bytes, slot);
  EXPECT_EQ(use.sizes[0].free_bytes, (2 * kMiB / slot - 10) * slot);
  EXPECT_EQ(use.sizes[1].taken_bytes, large);
  EXPECT_EQ(use.capacity_bytes, 16 * kMiB);
  EXPECT_GE(use.usable_bytes, 16 * kMiB - 2 * kMiB - 16 * kMiB / 4);
}

TEST(Pool, HoldsAPageAsLargeAsItself) {
  auto pool = MakePool(10 * kMiB);
  EXPECT_GT(pool->max_page_bytes(), 9 * kMiB);
  PagePin pin = Put(*pool, 1, pool->max_page_bytes());
  EXPECT_TRUE(IsPageOf(pin, KeyOf(1)));
  EXPECT_FALSE(pool->Reserve(pool->max_page_bytes()).ok());
}

TEST(Pool, RemembersWhereAPageWasPublished) {
  auto pool = MakePool(16 * kMiB);
  PagePin pin = Put(*pool, 1, 5000);
  const uint64_t offset = pin.offset(), generation = pin.header().generation;
  EXPECT_FALSE(pool->AddPublishedTo(offset, generation + 1, 3));
  EXPECT_FALSE(pool->AddPublishedTo(offset + 64, generation, 3));
  for (uint16_t peer : std::array<uint16_t, 3>{3, 4, 3})
    EXPECT_TRUE(pool->AddPublishedTo(offset, generation, peer));
  const PageAt moved{offset, generation + 1, KeyOf(1)}, still{offset, generation, KeyOf(1)};
  pool->AddPublishedTo(std::array{moved, still}, 5);
  EXPECT_FALSE(pool->RemovePublishedTo(offset, generation, 4, 0)) << "somebody holds it";
  EXPECT_TRUE(pool->RemovePublishedTo(offset, generation, 4, 1));
  std::vector<PageInfo> seen;
  pool->ForEachReady([&](const PageInfo& page) { seen.push_back(page); });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].offset, offset);
  EXPECT_EQ(seen[0].generation, generation);
  EXPECT_EQ(seen[0].length, 5000u);
  pin.Release();
  const auto victims = pool->TakeVictims(1, 5000);
  ASSERT_EQ(victims.size(), 1u);
  EXPECT_EQ(victims[0].published_to.count, 2);
  EXPECT_TRUE(victims[0].published_to.Contains(3));
  EXPECT_TRUE(victims[0].published_to.Contains(5));
  // The next page in that slot starts anew.
  pool->Quarantine(victims[0], Clock::now());
  pool->Reclaim(Clock::now() + milliseconds(1));
  ASSERT_EQ(Put(*pool, 2, 5000).offset(), offset);
  EXPECT_EQ(pool->TakeVictims(1, 5000).at(0).published_to.count, 0);
}

TEST(Pool, RemembersWhenItHasToldReadersItself) {
  auto pool = MakePool(16 * kMiB);
  const TimePoint now = Clock::now();
  PageAt at[3];
  for (uint64_t i = 0; i < 3; ++i) {
    const PagePin pin = Put(*pool, i, 5000);
    at[i] = {pin.offset(), pin.header().generation, KeyOf(i)};
  }
  PagePin pins[1];
  pool->FindManyAt({&at[1], 1}, pins, now);
  pins[0].Release();
  pool->Told(at[2].offset, at[2].generation, now + milliseconds(100));
  pool->Told(at[2].offset, at[2].generation + 1, now + milliseconds(900));  // has moved on
  EXPECT_FALSE(pool->FindAt(at[0].offset, at[0].generation + 1, at[0].key, now));
  EXPECT_TRUE(pool->Find(KeyOf(0))) << "an engine of this node, which holds a pin";
  std::map<Key, uint32_t> ago;
  for (const Victim& victim : pool->TakeVictims(16 * kMiB, 5000)) {
    ago[victim.key] = victim.told.MillisAgo(now + milliseconds(500));
    pool->Quarantine(victim, now);
  }
  EXPECT_EQ(ago, (std::map<Key, uint32_t>{
                     {KeyOf(0), LastTime::kNever}, {KeyOf(1), 499}, {KeyOf(2), 399}}));
  // The next page in such a slot is one that nobody was told of.
  pool->Reclaim(now + milliseconds(1));
  for (uint64_t i = 0; i < 3; ++i) Put(*pool, 10 + i, 5000);
  for (const Victim& victim : pool->TakeVictims(16 * kMiB, 5000))
    EXPECT_EQ(victim.told.MillisAgo(now + milliseconds(500)), LastTime::kNever);
}

TEST(PublishedTo, BeyondFourIsEverywhere) {
  PublishedTo to;
  for (uint16_t peer = 0; peer < 4; ++peer) to.Add(peer);
  EXPECT_FALSE(to.everywhere);
  to.Add(2);
  EXPECT_FALSE(to.everywhere);
  to.Add(9);
  EXPECT_TRUE(to.everywhere);
  EXPECT_TRUE(to.Contains(1000));
  to.Remove(2);
  EXPECT_TRUE(to.Contains(2)) << "everywhere is never taken back";
}

TEST(Pool, ForEachReadyMayCallThePool) {
  auto pool = MakePool(64 * kMiB);
  for (uint64_t i = 0; i < 500; ++i) Put(*pool, i, 4000 + i * 10);
  std::set<Key> seen;
  pool->ForEachReady([&](const PageInfo& page) {
    EXPECT_TRUE(seen.insert(page.key).second);
    EXPECT_TRUE(IsPageOf(pool->FindAt(page.offset, page.generation, page.key), page.key));
  });
  EXPECT_EQ(seen.size(), 500u);
}

TEST(Pool, StatsAddUp) {
  auto pool = MakePool(16 * kMiB);
  EXPECT_EQ(pool->stats().capacity_bytes, 16 * kMiB);
  EXPECT_EQ(pool->stats().free_bytes, 16 * kMiB);
  EXPECT_FALSE(pool->stats().huge);
  for (uint64_t i = 0; i < 10; ++i) Put(*pool, i, 5000);
  const size_t slot = SlotBytes(SizeClassOf(5000));
  pool->Quarantine(pool->TakeVictims(1, 5000).at(0), Clock::now());
  const PoolStats stats = pool->stats();
  EXPECT_EQ(stats.pages, 9u);
  EXPECT_EQ(stats.payload_bytes, 9 * 5000u);
  EXPECT_EQ(stats.used_bytes, 9 * slot);
  EXPECT_EQ(stats.quarantined_bytes, slot);
  EXPECT_LE(stats.used_bytes + stats.quarantined_bytes + stats.free_bytes, 16 * kMiB);
  EXPECT_GE(stats.used_bytes + stats.quarantined_bytes + stats.free_bytes, 16 * kMiB - slot);
}

TEST(Pool, RoundsItsSizeToChunks) {
  EXPECT_EQ(MakePool(1)->size(), 2 * kMiB);
  EXPECT_EQ(MakePool(5 * kMiB)->size(), 6 * kMiB);
  EXPECT_EQ(MakePool(127 * kMiB)->size(), 128 * kMiB);
  EXPECT_EQ(MakePool(300 * kMiB + 1)->size(), 300 * kMiB);
}

// With a node's memory and huge pages requested by its pool's size, nothing is left for more.
TEST(Pool, WhatIsBesideTheSlotsIsOutOfItsSize) {
  PoolOptions options;
  options.bytes = 256 * kMiB;
  options.huge_pages = HugePages::kOff;
  options.beside = kMiB / 2 + 1;
  auto pool = Pool::Create(options);
  ASSERT_TRUE(pool.ok()) << pool.status().ToString();
  EXPECT_EQ((*pool)->beside().size(), kMiB / 2 + 4096);
  EXPECT_EQ((*pool)->memory().bytes().size(), (*pool)->size() + (*pool)->beside().size());
  EXPECT_LE((*pool)->memory().bytes().size(), options.bytes);
  EXPECT_GE((*pool)->size(), 248 * kMiB);
  options.beside = options.bytes;
  pool = Pool::Create(options);
  ASSERT_FALSE(pool.ok());
  EXPECT_THAT(pool.status().message(), HasSubstr("leaves nothing for pages"));
}

TEST(Pool, CreateNamesWhatIsWrong) {
  auto zero = Pool::Create({.bytes = 0});
  ASSERT_FALSE(zero.ok());
  EXPECT_THAT(zero.status().message(), HasSubstr("size 0"));
  auto page = Pool::Create({.bytes = kMiB, .max_page_bytes = size_t{4} << 30});
  ASSERT_FALSE(page.ok());
  EXPECT_THAT(page.status().message(), HasSubstr("largest page 4Gi"));
  auto large = Pool::Create({.bytes = size_t{1} << 50});
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.status().message(), HasSubstr("choose a smaller size"));
}

TEST(Pool, FdIsTheMemory) {
  auto pool = MakePool(16 * kMiB);
  PagePin pin = Put(*pool, 1, 5000);
  auto mapped = MappedRegion::Map(UniqueFd(::dup(pool->fd())), pool->size(), MapAccess::kRead);
  ASSERT_TRUE(mapped.ok());
  EXPECT_TRUE(IsPageOf(mapped->bytes().subspan(pin.offset() + 64, 5000), KeyOf(1)));
}

}  // namespace
}  // namespace peercache
