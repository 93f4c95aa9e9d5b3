#include "pool/slot_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "pool/pool_testing.h"

namespace peercache {
namespace {

constexpr size_t kChunk = 2 * kMiB;

std::vector<Slot*> Drain(SlotTable& table, SizeClass c) {
  std::vector<Slot*> slots;
  while (Slot* slot = table.Allocate(c)) slots.push_back(slot);
  return slots;
}
void FreeAll(SlotTable& table, const std::vector<Slot*>& slots) {
  for (Slot* slot : slots) table.SetState(slot, SlotState::kFree);
}

TEST(SlotTable, ChunksAreASixtyFourthOfThePoolWithinLimits) {
  EXPECT_EQ(SlotTable::ChunkBytes(1), 2 * kMiB);
  EXPECT_EQ(SlotTable::ChunkBytes(128 * kMiB), 2 * kMiB);
  EXPECT_EQ(SlotTable::ChunkBytes(1000 * kMiB), 8 * kMiB);
  EXPECT_EQ(SlotTable::ChunkBytes(size_t{4} << 30), 64 * kMiB);
  EXPECT_EQ(SlotTable::ChunkBytes(size_t{1} << 40), 64 * kMiB);
}

TEST(SlotTable, SlotsOfEveryClassAreDisjointAndAligned) {
  for (size_t length : {size_t{1}, size_t{4097}, 64 * kKiB, 300 * kKiB, 5 * kMiB, 20 * kMiB}) {
    const SizeClass c = SizeClassOf(length);
    SlotTable table(64 * kMiB, kChunk, c);
    uint64_t end = 0;
    std::set<uint64_t> offsets;
    for (Slot* slot : Drain(table, c)) {
      EXPECT_EQ((slot->offset() + sizeof(SlotHeader)) % kPageAlignment, 0u);
      EXPECT_EQ(table.At(slot->offset()), slot);
      EXPECT_TRUE(offsets.insert(slot->offset()).second);
    }
    ASSERT_FALSE(offsets.empty()) << length;
    for (uint64_t offset : offsets) {
      EXPECT_GE(offset - kSlotLead, end);
      end = offset - kSlotLead + SlotBytes(c);
    }
    EXPECT_LE(end, 64 * kMiB);
  }
}

TEST(SlotTable, LosesAtMostAnEighthToTheEndsOfSpans) {
  constexpr size_t kPool = size_t{4} << 30;
  const size_t chunk = SlotTable::ChunkBytes(kPool);
  for (size_t length = 4096; length <= 64 * kMiB; length += length / 13) {
    const SizeClass c = SizeClassOf(length);
    SlotTable table(kPool, chunk, c);
    const auto run = table.RunLengthOf(c);
    EXPECT_LE(run.best * chunk % SlotBytes(c) * 8, run.best * chunk) << length;
    EXPECT_GE(run.least * chunk, SlotBytes(c));
    EXPECT_LE(run.least, run.best);
  }
}

// docs/node-options.md has these figures.
TEST(SlotTable, AGibibyteHoldsSoManyPages) {
  constexpr size_t kPool = size_t{1} << 30;
  const std::pair<size_t, size_t> sizes[] = {
      {4, 232960}, {16, 63488}, {64, 16256}, {128, 8128}, {1024, 960}};
  for (const auto& [kib, pages] : sizes) {
    const SizeClass c = SizeClassOf(kib * kKiB);
    SlotTable table(kPool, SlotTable::ChunkBytes(kPool), c);
    EXPECT_EQ(Drain(table, c).size(), pages) << kib;
  }
}

TEST(SlotTable, AtRefusesEveryOtherOffset) {
  const SizeClass small = SizeClassOf(10000), large = SizeClassOf(3 * kMiB);
  SlotTable table(16 * kMiB, kChunk, large);
  std::set<uint64_t> starts;
  EXPECT_EQ(table.At(0), nullptr) << "no span yet";
  Slot* one = table.Allocate(large);
  ASSERT_NE(one, nullptr);
  for (uint32_t i = 0; i < one->span->slot_count; ++i) starts.insert(one->span->slots[i].offset());
  Slot* two = table.Allocate(small);
  ASSERT_NE(two, nullptr);
  for (uint32_t i = 0; i < two->span->slot_count; ++i) starts.insert(two->span->slots[i].offset());
  for (uint64_t offset = 0; offset < 18 * kMiB; offset += 32)
    ASSERT_EQ(table.At(offset) != nullptr, starts.contains(offset)) << offset;
  for (uint64_t offset : {UINT64_MAX, UINT64_MAX - 63, uint64_t{1} << 63})
    EXPECT_EQ(table.At(offset), nullptr);
}

TEST(SlotTable, IdleChunksChangeTheirClass) {
  const SizeClass small = SizeClassOf(64 * kKiB), large = SizeClassOf(5 * kMiB);
  SlotTable table(32 * kMiB, kChunk, large);
  std::vector<Slot*> slots = Drain(table, small);
  EXPECT_GT(slots.size(), 400u);
  EXPECT_EQ(table.Allocate(large), nullptr);
  EXPECT_EQ(table.unassigned_bytes(), 0u);
  FreeAll(table, slots);
  EXPECT_EQ(table.BytesIn(SlotState::kWriting), 0u);
  slots = Drain(table, large);
  EXPECT_EQ(slots.size(), 5u);  // three chunks each
  EXPECT_EQ(Drain(table, small).size(), kChunk / SlotBytes(small)) << "one chunk is left";
  FreeAll(table, slots);
  EXPECT_EQ(Drain(table, small).size(), 15 * (kChunk / SlotBytes(small)));
}

TEST(SlotTable, ARunNeedsAdjacentChunks) {
  const SizeClass small = SizeClassOf(1 * kMiB), large = SizeClassOf(3 * kMiB);  // 1 and 2 chunks
  SlotTable table(8 * kMiB, kChunk, large);
  std::vector<Slot*> slots = Drain(table, small);
  ASSERT_EQ(slots.size(), 4u);  // a megabyte and its header: one a chunk
  std::sort(slots.begin(), slots.end(), [](auto a, auto b) { return a->offset() < b->offset(); });
  FreeAll(table, {slots[0], slots[2]});
  EXPECT_EQ(table.FreeBytes(large), 0u);
  EXPECT_EQ(table.Allocate(large), nullptr);
  FreeAll(table, {slots[1]});
  EXPECT_EQ(table.FreeBytes(large), SlotBytes(large));
  Slot* slot = table.Allocate(large);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->offset(), kSlotLead);
}

TEST(SlotTable, FreeBytesIsWhatAllocateGives) {
  std::mt19937_64 random(7);
  const SizeClass classes[] = {SizeClassOf(8 * kKiB), SizeClassOf(700 * kKiB),
                               SizeClassOf(3 * kMiB)};
  for (int round = 0; round < 50; ++round) {
    SlotTable table(32 * kMiB, kChunk, classes[2]);
    std::vector<Slot*> slots;
    for (int i = 0; i < 1500; ++i)
      if (Slot* slot = table.Allocate(classes[random() % 100 < 97 ? 0 : random() % 3]))
        slots.push_back(slot);
    for (Slot* slot : slots)
      if (random() % 5 != 0 || round % 2 == 0) table.SetState(slot, SlotState::kFree);
    const SizeClass c = classes[random() % 3];
    const size_t promised = table.FreeBytes(c);
    EXPECT_EQ(Drain(table, c).size() * SlotBytes(c), promised);
    EXPECT_EQ(table.FreeBytes(c), 0u);
  }
}

TEST(SlotTable, FreeSlotsAndUsableChunksAreDisjoint) {
  const SizeClass small = SizeClassOf(64 * kKiB), large = SizeClassOf(1 * kMiB);
  SlotTable table(8 * kMiB, kChunk, large);
  const auto coming = [&](SizeClass c) {
    return (table.FreeSlotBytes(c) + table.QuarantinedBytes(c)) / SlotBytes(c);
  };
  EXPECT_EQ(table.usable_bytes(), 4 * kChunk);
  EXPECT_FALSE(table.HasSpans(small));
  Slot* slot = table.Allocate(small);
  const size_t per_chunk = kChunk / SlotBytes(small);
  EXPECT_TRUE(table.HasSpans(small));
  EXPECT_EQ(table.usable_bytes(), 3 * kChunk);
  EXPECT_EQ(coming(small), per_chunk - 1);
  EXPECT_EQ(coming(large), 0u);
  table.SetState(slot, SlotState::kReady);
  table.SetState(slot, SlotState::kWithdrawing);
  EXPECT_EQ(coming(small), per_chunk - 1);
  table.SetState(slot, SlotState::kQuarantined);
  EXPECT_EQ(coming(small), per_chunk);
  EXPECT_EQ(table.QuarantinedBytes(small), SlotBytes(small));
  table.SetState(slot, SlotState::kFree);  // the span is idle now
  EXPECT_EQ(coming(small), 0u);
  EXPECT_EQ(table.usable_bytes(), 4 * kChunk);
  std::vector<Slot*> slots = Drain(table, large);  // takes it apart
  EXPECT_EQ(table.usable_bytes(), 0u);
  EXPECT_EQ(coming(small), 0u);
  EXPECT_FALSE(table.HasSpans(small));
  FreeAll(table, slots);
  EXPECT_EQ(coming(large), 0u);
  EXPECT_EQ(table.usable_bytes(), 4 * kChunk);
}

TEST(SlotTable, CountsBytesByState) {
  const SizeClass c = SizeClassOf(64 * kKiB);
  SlotTable table(4 * kMiB, kChunk, c);
  Slot* slot = table.Allocate(c);
  const size_t bytes = SlotBytes(c);
  for (SlotState state : {SlotState::kReady, SlotState::kWithdrawing, SlotState::kQuarantined}) {
    table.SetState(slot, state);
    EXPECT_EQ(table.BytesIn(state), bytes);
    EXPECT_EQ(table.BytesIn(SlotState::kWriting), 0u);
  }
  EXPECT_EQ(table.BytesIn(SlotState::kFree), (kChunk / bytes - 1) * bytes);
  EXPECT_EQ(table.unassigned_bytes(), kChunk);
}

}  // namespace
}  // namespace peercache
