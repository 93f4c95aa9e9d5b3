#include "pool/resting_slots.h"

#include <gtest/gtest.h>

#include "pool/pool_testing.h"

namespace peercache {
namespace {

const SlotHeader& HeaderAt(const Pool& pool, uint64_t offset) {
  return *reinterpret_cast<const SlotHeader*>(pool.base() + offset);
}

// Also of those that become part of a slot of another size, which Reserve does not look at.
TEST(RestingSlotsTest, HeadersAreVoidBeforeAnyByteOfTheirSlotsIsWrittenAgain) {
  auto pool = MakePool(16 * kMiB);
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; PagePin pin = Put(*pool, i, 64 * kKiB); ++i) offsets.push_back(pin.offset());
  const TimePoint now = Clock::now();
  for (const Victim& victim : pool->TakeVictims(pool->size(), 64 * kKiB))
    pool->Quarantine(victim, now);
  EXPECT_EQ(pool->Reclaim(now), 0u);
  for (const uint64_t offset : offsets)
    EXPECT_NE(HeaderAt(*pool, offset).generation, 0u) << "readers may have its record";
  EXPECT_GT(pool->Reclaim(now + milliseconds(1)), 0u);
  for (const uint64_t offset : offsets) EXPECT_EQ(HeaderAt(*pool, offset).generation, 0u);
  ASSERT_TRUE(pool->Reserve(1 * kMiB).ok());
}

TEST(RestingSlotsTest, GivesThoseThatAreDueAndNotMoreThanWanted) {
  Slot slots[3];
  RestingSlots resting;
  EXPECT_EQ(resting.next(), TimePoint::max());
  const TimePoint now = Clock::now();
  resting.Add(&slots[0], now + milliseconds(2));
  resting.Add(&slots[1], now);
  resting.Add(&slots[2], now + milliseconds(1));
  EXPECT_EQ(resting.next(), now);
  EXPECT_TRUE(resting.TakeDue(now, 8).empty()) << "not at that time, but after it";
  EXPECT_EQ(resting.TakeDue(now + milliseconds(2), 1), std::vector<Slot*>{&slots[1]});
  EXPECT_EQ(resting.TakeDue(now + milliseconds(2), 8), std::vector<Slot*>{&slots[2]});
  EXPECT_EQ(resting.next(), now + milliseconds(2));
}

TEST(RestingSlotsTest, KeepsASlotThatIsPinnedAfterAll) {
  Slot slot;
  RestingSlots resting;
  const TimePoint now = Clock::now();
  resting.Add(&slot, now);
  slot.pins = 1;
  EXPECT_TRUE(resting.TakeDue(now + milliseconds(1), 8).empty());
  slot.pins = 0;
  EXPECT_EQ(resting.TakeDue(now + milliseconds(2), 8), std::vector<Slot*>{&slot});
}

}  // namespace
}  // namespace peercache
