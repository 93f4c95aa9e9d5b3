#include "pool/state_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pool/slot_table.h"

namespace peercache {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kChunk = 2 * kMiB, kChunks = 8;
const SizeClass kSmall = SizeClassOf(64 << 10), kLarge = SizeClassOf(3 * kMiB);

class StateTableTest : public ::testing::Test {
 protected:
  StateTable States() { return {std::as_writable_bytes(std::span(memory_)), kChunks, kChunk}; }
  std::string Refused() {
    const auto spans = States().Spans(kLarge);
    return spans.ok() ? "" : spans.status().message();
  }
  std::vector<uint64_t> memory_ =
      std::vector<uint64_t>(StateTable::BytesFor(kChunks, kChunk) / sizeof(uint64_t));
};

TEST_F(StateTableTest, HasAByteForEverySlotOfEveryClass) {
  for (SizeClass c = 0; c <= kLarge; ++c) {
    std::ranges::fill(memory_, 0);
    SlotTable table(kChunks * kChunk, kChunk, kLarge, States());
    std::vector<Slot*> slots;
    while (Slot* slot = table.Allocate(c)) slots.push_back(slot);
    for (Slot* slot : slots) ASSERT_EQ(slot->span->states[slot->index], 1) << c;
    const auto* end = reinterpret_cast<const uint8_t*>(memory_.data() + memory_.size());
    ASSERT_LT(slots.back()->span->states + slots.back()->index, end);
    size_t written = 0;
    const auto spans = States().Spans(kLarge);
    for (const auto& span : *spans)
      for (const uint8_t state : States().StatesOf(span)) written += state == 1;
    ASSERT_EQ(written, slots.size()) << "two slots have the same byte";
  }
}

TEST_F(StateTableTest, FollowsSlotsAndSpans) {
  SlotTable table(kChunks * kChunk, kChunk, kLarge, States());
  EXPECT_TRUE(States().Spans(kLarge)->empty());
  Slot* small = table.Allocate(kSmall);
  Slot* large = table.Allocate(kLarge);
  for (const SlotState state :
       {SlotState::kReady, SlotState::kWithdrawing, SlotState::kQuarantined})
    for (Slot* slot : {small, large}) {
      table.SetState(slot, state);
      EXPECT_EQ(slot->span->states[slot->index], static_cast<uint8_t>(state));
    }
  large->replica = 1;
  table.SetState(large, SlotState::kReady);
  EXPECT_EQ(large->span->states[large->index], StateTable::kReadyReplica);
  const auto spans = States().Spans(kLarge);
  ASSERT_TRUE(spans.ok());
  ASSERT_EQ(spans->size(), 2u);
  EXPECT_EQ((*spans)[0].size_class, kSmall);
  EXPECT_EQ((*spans)[1].size_class, kLarge);
  EXPECT_EQ((*spans)[1].first, large->span->first_chunk);
  EXPECT_EQ((*spans)[1].chunks, large->span->chunks);
  EXPECT_EQ((*spans)[1].slots, large->span->slot_count);
  // Chunks that change their class leave no state behind.
  table.SetState(small, SlotState::kFree);
  table.SetState(large, SlotState::kFree);
  std::vector<Slot*> all;
  while (Slot* slot = table.Allocate(kLarge)) all.push_back(slot);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(States().Spans(kLarge)->size(), 4u);
}

TEST_F(StateTableTest, ARestoredTableGoesOn) {
  std::vector<bool> ready;
  {
    SlotTable table(kChunks * kChunk, kChunk, kLarge, States());
    while (Slot* slot = table.Allocate(kSmall)) {
      ready.push_back(ready.size() % 3 != 0);
      if (ready.back()) table.SetState(slot, SlotState::kReady);
    }
  }
  SlotTable table(kChunks * kChunk, kChunk, kLarge, States());
  const auto spans = States().Spans(kLarge);
  ASSERT_TRUE(spans.ok());
  size_t kept = 0, at = 0;
  for (const auto& span : *spans) {
    Span* restored = table.Restore(span);
    std::vector<uint8_t> which;
    for (uint32_t i = 0; i < restored->slot_count; ++i) {
      which.push_back(ready[at++]);
      kept += which.back();
      if (!which.back()) StateTable::Set(&restored->states[i], 0);
    }
    table.SetReady(restored, which);
  }
  EXPECT_EQ(table.SlotsIn(SlotState::kReady), kept);
  EXPECT_EQ(table.SlotsIn(SlotState::kFree), ready.size() - kept);
  EXPECT_EQ(table.BytesIn(SlotState::kReady), kept * SlotBytes(kSmall));
  EXPECT_EQ(table.usable_bytes(), 0u);
  EXPECT_EQ(table.FreeSlotBytes(kSmall), (ready.size() - kept) * SlotBytes(kSmall));
  size_t free = 0;
  while (table.Allocate(kSmall) != nullptr) ++free;
  EXPECT_EQ(free, ready.size() - kept);
}

TEST_F(StateTableTest, ASpanWithoutPagesIsIdle) {
  { SlotTable(kChunks * kChunk, kChunk, kLarge, States()).Allocate(kSmall); }
  SlotTable table(kChunks * kChunk, kChunk, kLarge, States());
  const auto spans = States().Spans(kLarge);
  Span* span = table.Restore(spans->at(0));
  table.SetReady(span, std::vector<uint8_t>(span->slot_count));
  EXPECT_TRUE(span->idle());
  EXPECT_EQ(table.usable_bytes(), kChunks * kChunk);
}

TEST_F(StateTableTest, WhatNoPoolWritesIsRefused) {
  constexpr uint64_t kOfOne = uint64_t{1} << 32, kOfTwo = uint64_t{2} << 32;
  EXPECT_EQ(Refused(), "");
  for (const uint64_t entry : {kOfOne, uint64_t{1}, uint64_t{9} << 32 | 1, kOfOne | (kLarge + 2),
                               kOfOne | (kLarge + 1), UINT64_MAX}) {
    memory_[0] = entry;
    EXPECT_THAT(Refused(), ::testing::HasSubstr("chunk 0 has entry")) << entry;
  }
  memory_[0] = kOfTwo | (kLarge + 1);
  EXPECT_EQ(Refused(), "");
  memory_[1] = kOfOne | 1;  // within another span
  EXPECT_NE(Refused(), "");
  memory_[1] = 0;
  *States().StatesFrom(0) = StateTable::kReadyReplica + 1;
  EXPECT_NE(Refused(), "");
}

}  // namespace
}  // namespace peercache
